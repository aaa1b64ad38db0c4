"""Fetching from a broker: one way for consumers, readers and followers.

``fetch`` asks one broker, within a session or without. What is asked for, and what becomes of the
records, is the caller's business.
"""

from moldau.fetch.exchange import FetchAnswer, fetch, fetch_in_session
from moldau.fetch.request import CONSUMER, NO_EPOCH, FetchParams, PartitionFetch
from moldau.fetch.session import FetchSession

__all__ = [
    "CONSUMER",
    "NO_EPOCH",
    "FetchAnswer",
    "FetchParams",
    "FetchSession",
    "PartitionFetch",
    "fetch",
    "fetch_in_session",
]
