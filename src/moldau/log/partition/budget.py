"""How much a compressed batch may come to, and how much of a request on the event loop.

Kafka has no such limit. It is generous: a batch as large as ``max.message.bytes`` allows may hold
32 times as much, a small one 32 MiB. Beyond that the answer is MESSAGE_TOO_LARGE, at which
producers cut a batch of several records in two and send it again. What else is in the request does
not matter: a producer could not know what to do about that.
"""

from __future__ import annotations

from typing import Final

MIB: Final = 1024 * 1024
RATIO: Final = 32
LEAST: Final = 32 * MIB
AT_ONCE: Final = MIB
"""One to three milliseconds, by the codec."""
PART_COST: Final = 1024
"""What a member of gzip, a block of snappy or a frame of zstd counts on the event loop, though it
may hold nothing: some microseconds.
"""
COMPRESSION_WEIGHT: Final = 16
"""To compress takes so much longer than to decompress, in the worst case."""


def batch_limit(max_message_bytes: int) -> int:
    return max(RATIO * max_message_bytes, LEAST)


class DecompressionBudget:
    """What is left for the batches of one request on the event loop; what needs more goes to a
    thread. Most requests make one and never look at it, so that it begins with what the class has.
    """

    at_once: int = AT_ONCE

    def next_turn(self) -> None:
        """Others had their turn on the event loop."""
        self.at_once = AT_ONCE
