"""A container that feeds records to handlers, slow and parallel ones, and commits what is done."""

from moldau.client.listener.async_listener import AsyncListener
from moldau.client.listener.handlers import Acknowledgment
from moldau.client.listener.headers import Failure, Source, read_failure, source_of
from moldau.client.listener.listener import Listener
from moldau.client.listener.modes import AckMode
from moldau.client.listener.retries import OnError, Retries
from moldau.client.listener.work import Ordering

__all__ = [
    "AckMode",
    "Acknowledgment",
    "AsyncListener",
    "Failure",
    "Listener",
    "OnError",
    "Ordering",
    "Retries",
    "Source",
    "read_failure",
    "source_of",
]
