"""Names what speaks to a listener when it is not a Kafka client, for the log line an operator
reads.
"""

from __future__ import annotations

from typing import Final

_HTTP_STARTS: Final = (
    b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ",
)  # fmt: skip


def describe_garbage(start: bytes, size: int, limit: int) -> str:
    """Returns what a connection looks like whose first frame size makes no sense.

    A TLS record, an HTTP verb or an SSH banner read as a size prefix is always far above any sane
    limit, which is why looking only at impossible sizes finds them all.
    """
    if start[:2] == b"\x16\x03":
        return "looks like a TLS hello; this listener speaks plaintext"
    if start.startswith(_HTTP_STARTS):
        return "looks like an HTTP request; this listener speaks Kafka's protocol"
    if start[:4] == b"SSH-":
        return "looks like an SSH client; this listener speaks Kafka's protocol"
    if size < 0:
        return f"a negative frame size ({size}); the bytes began with {start.hex(' ')}"
    return (
        f"a frame of {size} bytes was announced, above socket.request.max.bytes={limit}; "
        f"the bytes began with {start.hex(' ')}"
    )
