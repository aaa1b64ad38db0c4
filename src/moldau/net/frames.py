"""From a stream of bytes to frames: the one reader that connections and channels share.

A frame is a 4-byte big-endian size and that many bytes. Requests are looked at where they were
read:

- Every connection reads into the *same* scratch buffer of its pool. A frame that arrives whole is
  handed out as a view of it, and nothing is kept per connection: an idle one costs no buffer. What
  is left incomplete at the end is set aside (an exact copy, at most the scratch size) and put back
  in front of the next read.
- A frame larger than the scratch buffer moves, once a fair part of it has come, to a buffer of its
  own, and is read exactly to its end, so no neighbour's bytes have to be moved out of it. That
  buffer grows with what has really arrived, never with what was announced, and goes back to the
  pool with the end of the frame.

So memory is bounded by bytes received in unfinished frames, however many connections there are; and
those by the ``MemoryPool``, in which every byte is counted that is kept outside the scratch buffer.
While it is depleted, a connection takes no more than ``SMALL_PART`` of the scratch buffer without
asking.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, Protocol

from moldau.net.errors import FrameSizeError
from moldau.net.memory_pool import Borrower, MemoryPool

KIB: Final = 1024
MIB: Final = 1024 * KIB

SCRATCH_SIZE: Final = 64 * KIB
# A frame too large for the scratch buffer moves out of it when it fills this fraction of it.
LARGE_AFTER: Final = 4
# An own buffer grows by this factor; the bytes copied for growing stay below a third of the frame.
GROWTH: Final = 4
# Own buffers come in multiples of this, so that one kept for reuse fits the next, slightly larger
# frame too.
LARGE_STEP: Final = 256 * KIB
# A frame of up to this fraction of the scratch buffer never waits for memory: small requests are
# served whatever others do, and so is whoever wants to know what is wrong.
SMALL_PART: Final = 16

_SIZE_PREFIX: Final = 4
_read_size: Final = Struct(">i").unpack_from


def _buffer_size(wanted: int, at_most: int) -> int:
    """Returns how large a new buffer is: as large as may be, or as needed, in whole steps."""
    return at_most if at_most < wanted else -(-wanted // LARGE_STEP) * LARGE_STEP


class Reading(Protocol):
    """Whose bytes a reader takes in, where memory may be short."""

    @property
    def is_read(self) -> bool:
        """Whether it is the peer's turn: it may send, and all that came whole is executed."""
        ...

    def wait_for_memory(self) -> None:
        """Nothing may be received until ``memory_is_there``."""
        ...

    def memory_is_there(self) -> None: ...

    def drop_for_memory(self) -> None:
        """Others wait for the memory that the unfinished or unread bytes of this peer take."""
        ...


class BufferPool:
    """The memory that all connections of one event loop read into."""

    __slots__ = (
        "_fewest_free",
        "_free",
        "_free_bytes",
        "_keep_bytes",
        "_keep_largest",
        "memory",
        "scratch",
        "small",
    )

    def __init__(
        self,
        *,
        memory: MemoryPool | None = None,
        scratch_size: int = SCRATCH_SIZE,
        keep_bytes: int = 16 * MIB,
        keep_largest: int = 4 * MIB,
    ) -> None:
        self.memory = memory or MemoryPool()
        self.scratch = memoryview(bytearray(scratch_size))
        self.small = self.scratch[: scratch_size // SMALL_PART]
        self._keep_bytes = keep_bytes
        self._keep_largest = keep_largest
        self._free: list[memoryview] = []
        self._free_bytes = 0
        self._fewest_free = 0

    def take(self, wanted: int, at_most: int) -> memoryview:
        """Returns a buffer of ``wanted`` bytes if one lies ready, else one of no more than
        ``at_most``.
        """
        free = self._free
        for index in range(len(free) - 1, -1, -1):
            if len(free[index]) >= wanted:
                view = free.pop(index)
                self._free_bytes -= len(view)
                self._fewest_free = min(self._fewest_free, len(free))
                return view
        return memoryview(bytearray(_buffer_size(wanted, at_most)))

    def give(self, view: memoryview) -> None:
        """Take a buffer back, to be kept only within the pool's limits."""
        size = len(view)
        if size <= self._keep_largest and self._free_bytes + size <= self._keep_bytes:
            self._free.append(view)
            self._free_bytes += size

    def recycle(self, frame: memoryview) -> None:
        """Nobody looks any more at this view of a frame that ``FrameReader.keep_frame`` gave away:
        a later one may be read into its memory.
        """
        buffer = frame.obj
        if isinstance(buffer, bytearray):  # a small frame is a copy
            self.give(memoryview(buffer))

    def trim(self) -> None:
        """Let go of the buffers that nobody needed since the last call."""
        for view in self._free[: self._fewest_free]:
            self._free_bytes -= len(view)
        del self._free[: self._fewest_free]
        self._fewest_free = len(self._free)

    @property
    def kept_bytes(self) -> int:
        return self._free_bytes


class FrameReader(Borrower):
    """Cuts the bytes of one peer into frames.

    ``get_buffer`` and ``received`` take bytes in; ``next_frame`` hands frames out until it answers
    None. Whoever stops asking before that calls ``park``, because the scratch buffer belongs to
    others next. A frame is a writable view, valid until the next call; ``keep_frame`` makes it
    last.
    """

    __slots__ = (
        "_end",
        "_max_size",
        "_memory",
        "_need",
        "_own",
        "_owner",
        "_pool",
        "_scratch",
        "_start",
        "_view",
    )

    def __init__(self, pool: BufferPool, max_size: int, owner: Reading | None = None) -> None:
        """Without an owner there is nobody who could wait: the pool's memory is unlimited."""
        super().__init__()
        self._pool = pool
        self._memory = pool.memory
        self._owner = owner
        self._max_size = max_size
        self._scratch = pool.scratch
        # The unread bytes are _view[_start:_end]; _view is the scratch buffer, a parked copy or an
        # own buffer.
        self._view = pool.scratch
        self._start = 0
        self._end = 0
        self._own = False
        self._need = 0  # of an unfinished frame: its whole size, 0 if still unknown

    @property
    def buffered(self) -> int:
        """How many bytes wait here, in whole and unfinished frames."""
        return self._end - self._start

    def get_buffer(self) -> memoryview:
        """Returns where the next bytes of the peer go; ``received`` says how many came."""
        view = self._view
        if view is self._scratch:
            return self._pool.small if self._memory.is_depleted else view
        end = self._end
        if self._own:
            if end == len(view):  # nobody asked for the frame meanwhile
                self._make_room(self.missing())
            return self._view[end : self._need]
        scratch = self._scratch
        if end == len(scratch):
            raise BufferError("a transport read on although reading was paused")
        scratch[:end] = view
        if self._memory.is_depleted:
            allowed = max(len(self._pool.small), self.held)
            if end < allowed:
                return scratch[end:allowed]
        return scratch[end:]

    def received(self, nbytes: int) -> None:
        self._end += nbytes
        if not self._own:
            self._view = self._scratch

    def next_frame(self) -> memoryview | None:
        start = self._start
        end = self._end
        if end - start >= _SIZE_PREFIX:
            size: int = _read_size(self._view, start)[0]
            if not 0 <= size <= self._max_size:
                seen = bytes(self._view[start : min(start + 16, end)])
                raise FrameSizeError(size, self._max_size, seen)
            stop = start + _SIZE_PREFIX + size
            if stop <= end:
                self._start = stop
                return self._view[start + _SIZE_PREFIX : stop]
            self._set_aside(start, end, stop - start)
        elif start == end:
            self.discard()
        else:
            self._set_aside(start, end, 0)
        return None

    def put_back(self, frame: memoryview) -> None:
        """Take back the frame that was handed out last: it is the next one again."""
        self._start -= _SIZE_PREFIX + len(frame)

    def park(self) -> None:
        """Copy what is unread out of the scratch buffer, which others read into from now on."""
        start, end = self._start, self._end
        if start == end:
            self.discard()
        elif self._view is self._scratch:
            if start:
                self._memory.release(self)  # that was for another frame
            self._copy_out(start, end)
            self._memory.hold(self, end - start)

    def keep_frame(self, frame: memoryview) -> memoryview:
        """Returns the frame that was handed out last, as a view that stays valid: a large one
        without a copy, which is nobody's concern here any more.
        """
        if self._own:
            self._own = False
            self._memory.release(self)
            self._replace(self._scratch, 0)
            return frame
        return memoryview(bytes(frame))

    def discard(self) -> None:
        """Forget what is unread, and hold no memory."""
        if self.held:
            if self._own:
                self._own = False
                self._pool.give(self._view)
            self._memory.release(self)
        self._view = self._scratch
        self._start = self._end = 0

    # What the pool of memory asks

    def missing(self) -> int:
        """An unfinished frame that is large needs a buffer of its own, another one what may be left
        over of it in the scratch buffer.
        """
        have, need, most = self._end - self._start, self._need, len(self._scratch)
        if need > most:
            if have >= most // LARGE_AFTER:
                return _buffer_size(need, GROWTH * have) - self.held
            need = most
        return max(have, need) - self.held

    def waits_for_peer(self) -> bool:
        return self._owner is not None and self._owner.is_read

    def go_on(self) -> None:
        self._make_room(self.missing())
        if self._owner is not None:
            self._owner.memory_is_there()

    def drop(self) -> None:
        if self._owner is not None:
            self._owner.drop_for_memory()

    # Unfinished frames

    def _set_aside(self, start: int, end: int, need: int) -> None:
        """Keep an unfinished frame for later; ``need`` is its whole size, 0 if still unknown."""
        if self._own:
            if end < len(self._view):
                return
        elif start and self.held:
            self._memory.release(self)  # that was for another frame
        self._need = need
        missing = self.missing()
        if missing <= 0:
            self._copy_out(start, end)
        elif need <= len(self._pool.small) or self._memory.may_take(self, missing):
            self._make_room(missing)
        else:
            self._copy_out(start, end)
            if self.held < end - start:
                self._memory.hold(self, end - start)
            if self._owner is not None:
                self._owner.wait_for_memory()

    def _make_room(self, missing: int) -> None:
        """Have so much more memory."""
        start, end = self._start, self._end
        have = end - start
        size = len(self._scratch)
        if self._need <= size or have < size // LARGE_AFTER:
            self._copy_out(start, end)
            self._memory.hold(self, self.held + missing)
            return
        view = self._pool.take(self._need, GROWTH * have)
        view[:have] = self._view[start:end]
        self._replace(view, have)
        self._own = True
        self._memory.hold(self, len(view))

    def _copy_out(self, start: int, end: int) -> None:
        if start or self._view is self._scratch:
            self._replace(memoryview(bytearray(self._view[start:end])), end - start)

    def _replace(self, view: memoryview, end: int) -> None:
        self._view = view
        self._start = 0
        self._end = end
