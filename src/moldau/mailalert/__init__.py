"""Alerts by mail that survive bursts, crashes and outages of the mail server.

    from moldau.mailalert import send_alert

    send_alert("disk full", "/data has 1 % left")

``moldau mailalert run`` is the application that mails them; ``RateLimiter`` is of use on its own.
"""

from moldau.mailalert.alert import Alert, Severity
from moldau.mailalert.limiter import RateLimiter
from moldau.mailalert.producer import AlertSender, send_alert

__all__ = ["Alert", "AlertSender", "RateLimiter", "Severity", "send_alert"]
