"""What one client may ask for, so that the others need not wait: a turn of the loop is to last
milliseconds, whatever is asked, and nobody's session may come to its end over it.

ZooKeeper bounds the bytes of a request (``jute.maxbuffer``). A megabyte of small operations is half
a second of work here, so their number is bounded, too.
"""

from __future__ import annotations

from typing import Final

LARGEST_FRAME: Final = 0xFFFFF + 1024
"""ZooKeeper's ``jute.maxbuffer`` is the largest node; a little more is the largest request."""
LIGHT_FRAME: Final = 65_536
"""Nothing else of a client is taken before a request that is larger has been answered."""
MOST_UNANSWERED: Final = 256
"""Requests of one client that may wait; then no more is read from it."""
MOST_UNSENT: Final = 1 << 20
"""Bytes of answers that may wait for the end of this turn; the same."""
MOST_OPERATIONS: Final = 4096
"""In one transaction, or one request that reads several nodes. ZooKeeper's shell and the controller
put up to 2,000 into one."""
LARGEST_ANSWER: Final = 16 << 20
"""A small request may name large nodes, and the same one again and again."""
MOST_CHILDREN: Final = 100_000
"""Of one node, and in one answer."""
MOST_EPHEMERALS: Final = 10_000
"""Of one session: they go in one transaction."""
MOST_WATCHES: Final = 8192
"""Of one session."""
LONGEST_PATH: Final = 4096
"""In bytes."""
MOST_ACL_ENTRIES: Final = 100
