"""Connections: the broker's listeners and a client's channels, over any transport."""

from moldau.net.channel import Channel
from moldau.net.connection import ConnectionLimits, Handler, Pending, ServerConnection
from moldau.net.errors import ChannelClosedError, RequestTimeoutError
from moldau.net.frames import BufferPool
from moldau.net.listener import Listener, ListenerSettings
from moldau.net.quotas import ConnectionQuotas

__all__ = [
    "BufferPool",
    "Channel",
    "ChannelClosedError",
    "ConnectionLimits",
    "ConnectionQuotas",
    "Handler",
    "Listener",
    "ListenerSettings",
    "Pending",
    "RequestTimeoutError",
    "ServerConnection",
]
