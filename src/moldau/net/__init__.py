"""Connections: the broker's listeners, a client's channels, and the transport under both."""

from moldau.net.channel import Channel
from moldau.net.connection import ConnectionLimits, Handler, Pending, ServerConnection
from moldau.net.errors import ChannelClosedError, RequestTimeoutError
from moldau.net.frames import BufferPool
from moldau.net.interfaces import Buffer, FileSlice, Part, Transport
from moldau.net.listener import Listener, ListenerSettings
from moldau.net.loop import run
from moldau.net.quotas import ConnectionQuotas

__all__ = [
    "Buffer",
    "BufferPool",
    "Channel",
    "ChannelClosedError",
    "ConnectionLimits",
    "ConnectionQuotas",
    "FileSlice",
    "Handler",
    "Listener",
    "ListenerSettings",
    "Part",
    "Pending",
    "RequestTimeoutError",
    "ServerConnection",
    "Transport",
    "run",
]
