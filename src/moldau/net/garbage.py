"""Names what speaks to a listener when it is not a Kafka client, for the log line an operator
reads.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_HTTP_STARTS: Final = (
    b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ",
)  # fmt: skip


class Garbage(NamedTuple):
    """What a peer sent instead of a request."""

    kind: str
    """The same for all who do the same, whatever bytes they send."""
    text: str


def describe_garbage(start: bytes, size: int, limit: int) -> Garbage:
    """Returns what a connection looks like whose first frame size makes no sense.

    A TLS record, an HTTP verb or an SSH banner read as a size prefix is always far above any sane
    limit, which is why looking only at impossible sizes finds them all.
    """
    if start[:2] == b"\x16\x03":
        return Garbage("TLS", "looks like a TLS hello; this listener speaks plaintext")
    if start.startswith(_HTTP_STARTS):
        return Garbage("HTTP", "looks like an HTTP request; this listener speaks Kafka's protocol")
    if start[:4] == b"SSH-":
        return Garbage("SSH", "looks like an SSH client; this listener speaks Kafka's protocol")
    if size < 0:
        return Garbage(
            "negative size",
            f"a negative frame size ({size}); the bytes began with {start.hex(' ')}",
        )
    return Garbage(
        "large size",
        f"a frame of {size} bytes was announced, above socket.request.max.bytes={limit}; "
        f"the bytes began with {start.hex(' ')}",
    )
