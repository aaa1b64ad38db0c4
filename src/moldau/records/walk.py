"""One pass over the encoded records of a batch that makes no object of any of them.

The broker looks at every record that a client sends, as Kafka's log validator does: its fields must
add up to its size, the records to the payload, their offset deltas must count from 0 on, and their
keys and timestamps must be what the topic wants. A search by time is the same pass with an earlier
end. Compiled by mypyc where a compiler was at hand.

The payload comes in windows of any size, because what a stranger's few kilobytes decompress to
must never be in memory as a whole. A record may lie across windows, and a value may be larger than
many: a field is read when all of its bytes are there, and what has to be skipped is only counted.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i64_le

from moldau.records.errors import InvalidRecordError
from moldau.records.malformed import bad_size, ends_early, trailing_bytes
from moldau.records.native import i64
from moldau.records.streams import PayloadStream
from moldau.records.varint import INT32_BYTES, INT64_BYTES, finish_varint, read_varint

MAX_LISTED: Final = 100
"""Of the records that a topic does not want, so many are named."""

MIN_LONG: Final = -(2**63)
MAX_LONG: Final = 2**63 - 1

_WINDOW: Final = 64 * 1024

# Where in a record the walk stands. In front of each there are bytes that may have to be skipped.
_START: Final[i64] = 0
_VALUE: Final[i64] = 1
_HEADERS: Final[i64] = 2
_HEADER_NAME: Final[i64] = 3
_HEADER_VALUE: Final[i64] = 4

_HEAD_BYTES: Final[i64] = 26
"""Most that a record's size, attributes, timestamp, offset and size of the key take."""
_SIZE_BYTES: Final[i64] = 5
_WORD_BYTES: Final[i64] = 8


@final
class RecordWalk:
    """A walk over ``count`` records, and what it has found so far.

    A record whose timestamp delta is not from ``earliest`` to ``latest``, nor ``no_time``, is
    untimely; with ``needs_keys`` one without a key is keyless, and its time does not matter. Offset
    deltas must be consecutive, unless the walk is a search.
    """

    __slots__ = (
        "_consecutive",
        "_count",
        "_earliest",
        "_end",
        "_headers",
        "_index",
        "_latest",
        "_needs_keys",
        "_no_time",
        "_place",
        "_skip",
        "_wanted_offset",
        "_wanted_time",
        "found",
        "found_offset",
        "found_time",
        "keyless",
        "keyless_count",
        "max_time",
        "untimely",
        "untimely_count",
    )

    def __init__(
        self,
        count: i64,
        needs_keys: bool = False,
        earliest: i64 = MIN_LONG,
        latest: i64 = MAX_LONG,
        no_time: i64 = MIN_LONG,
    ) -> None:
        self._count: i64 = count
        self._consecutive = True
        self._needs_keys = needs_keys
        self._earliest: i64 = earliest
        self._latest: i64 = latest
        self._no_time: i64 = no_time
        self._wanted_time: i64 = MAX_LONG
        self._wanted_offset: i64 = MAX_LONG
        self._index: i64 = 0
        self._place: i64 = _START
        self._headers: i64 = 0
        self._end: i64 = 0
        self._skip: i64 = 0
        self.max_time: i64 = MIN_LONG
        """The largest timestamp delta."""
        self.keyless: list[int] = []
        self.keyless_count: i64 = 0
        self.untimely: list[tuple[int, int]] = []
        """Which records, by their number in the batch, and their timestamp deltas."""
        self.untimely_count: i64 = 0
        self.found: bool = False
        self.found_time: i64 = 0
        self.found_offset: i64 = 0

    def search(self, time: i64, offset: i64) -> None:
        """End at the first record with at least these deltas; offsets may have gaps."""
        self._consecutive = False
        self._wanted_time = time
        self._wanted_offset = offset

    def over(self, payload: memoryview) -> None:
        """Walk over records that are not compressed. A window at a time is copied, because only
        ``bytes`` are read at full speed; what is skipped is not.
        """
        size: i64 = len(payload)
        if size <= _WINDOW:
            self._go(bytes(payload), True)
            return
        at: i64 = 0
        while True:
            stop: i64 = at + _WINDOW
            if stop > size:
                stop = size
            at += self._go(bytes(payload[at:stop]), stop == size)
            if stop == size or self.found:
                return
            jump: i64 = self._skip
            if jump > size - at:
                jump = size - at
            self._skip -= jump
            self._end -= jump
            at += jump

    def over_stream(self, stream: PayloadStream) -> None:
        """Walk over records as they are decompressed, a window at a time."""
        rest = b""
        while True:
            piece = stream.read(_WINDOW)
            window = rest + piece if rest else piece
            done = self._go(window, not piece)
            if not piece or self.found:
                return
            rest = window[done:]

    def _go(self, data: bytes, is_last: bool) -> i64:
        """Walk on and return how much of the window is done with."""
        try:
            return self._walk(data, is_last)
        except IndexError:
            raise ends_early(self._count) from None

    def _walk(self, data: bytes, is_last: bool) -> i64:  # noqa: C901 (flat, as in the reader)
        limit: i64 = len(data)
        pos: i64 = self._skip
        end: i64 = self._end
        place: i64 = self._place
        headers: i64 = self._headers
        index: i64 = self._index
        count: i64 = self._count
        max_time: i64 = self.max_time
        earliest: i64 = self._earliest
        latest: i64 = self._latest
        wanted_time: i64 = self._wanted_time
        consecutive: bool = self._consecutive
        while index < count:
            if place == _START:
                if limit - pos < _HEAD_BYTES and not is_last:
                    break
                # Eight bytes at once hold all that comes before the key, in nearly all records; one
                # after the other, with a check for each, they take twice as long.
                is_read: bool = False
                if limit - pos >= _WORD_BYTES:
                    word: i64 = read_i64_le(data, pos)
                    at: i64 = pos
                    size: i64 = word & 0xFF
                    if size >= 0x80:
                        size = size & 0x7F | word >> 1 & 0x3F80
                        is_read = word & 0x8000 == 0
                        word >>= 8
                        at += 1
                    else:
                        is_read = True
                    end = at + 1 + ((size >> 1) ^ -(size & 1))
                    word >>= 16
                    time: i64 = word & 0xFF
                    if time >= 0x80:
                        time = time & 0x7F | word >> 1 & 0x3F80
                        is_read = is_read and word & 0x8000 == 0
                        word >>= 8
                        at += 1
                    time = (time >> 1) ^ -(time & 1)
                    word >>= 8
                    delta: i64 = word & 0xFF
                    if delta >= 0x80:
                        delta = delta & 0x7F | word >> 1 & 0x3F80
                        is_read = is_read and word & 0x8000 == 0
                        word >>= 8
                        at += 1
                    delta = (delta >> 1) ^ -(delta & 1)
                    size = word >> 8 & 0xFF
                    is_read = is_read and size < 0x80
                    size = (size >> 1) ^ -(size & 1)
                    if is_read:
                        pos = at + 5
                if not is_read:
                    size, pos = read_varint(data, pos, INT32_BYTES)
                    end = pos + size
                    time, pos = read_varint(data, pos + 1, INT64_BYTES)  # after the attributes
                    delta, pos = read_varint(data, pos, INT32_BYTES)
                    size, pos = read_varint(data, pos, INT32_BYTES)
                # A negative size ends before its own key.
                if is_last and end > limit:
                    raise bad_size(index, "the record", end - pos, limit - pos)
                if size < -1 or size > end - pos:
                    raise bad_size(index, "its key", size, end - pos)
                if consecutive and delta != index:
                    raise InvalidRecordError(f"record {index}: its offset delta is {delta}")
                if time > max_time:
                    max_time = time
                if size >= 0:
                    pos += size
                    if time < earliest or time > latest:
                        self._note_time(index, time)
                elif self._needs_keys:
                    self._note_key(index)
                elif time < earliest or time > latest:
                    self._note_time(index, time)
                if time >= wanted_time and delta >= self._wanted_offset:
                    self.found = True
                    self.found_time = time
                    self.found_offset = delta
                    break
                place = _VALUE

            if place == _VALUE:
                if limit - pos < _SIZE_BYTES and not is_last:
                    break
                size = data[pos]
                pos += 1
                if size < 0x80:
                    size = (size >> 1) ^ -(size & 1)
                else:
                    size, pos = finish_varint(data, pos, size, INT32_BYTES)
                if size < -1 or size > end - pos:
                    raise bad_size(index, "its value", size, end - pos)
                if size > 0:
                    pos += size
                place = _HEADERS

            if place == _HEADERS:
                if limit - pos < _SIZE_BYTES and not is_last:
                    break
                if data[pos] == 0:
                    pos += 1
                    headers = 0
                else:
                    headers, pos = read_varint(data, pos, INT32_BYTES)
                    # Two bytes make the smallest header: no count can be honest beyond that.
                    if headers < 0 or headers > (end - pos) // 2:
                        raise InvalidRecordError(
                            f"record {index}: {headers} headers in {end - pos} bytes"
                        )
                place = _HEADER_NAME

            while headers > 0:
                if limit - pos < _SIZE_BYTES and not is_last:
                    break
                size, pos = read_varint(data, pos, INT32_BYTES)
                if size > end - pos or size < (0 if place == _HEADER_NAME else -1):
                    raise bad_size(index, "a header", size, end - pos)
                if size > 0:
                    pos += size
                if place == _HEADER_NAME:
                    place = _HEADER_VALUE
                else:
                    place = _HEADER_NAME
                    headers -= 1
            if headers > 0:
                break

            if pos != end:
                raise InvalidRecordError(f"record {index}: its fields do not add up to its size")
            index += 1
            place = _START

        if index == count:
            if pos < limit:
                raise trailing_bytes(count, limit - pos)
            if is_last and pos > limit:
                raise IndexError
        done: i64 = min(pos, limit)
        self._skip = pos - done
        self._end = end - done
        self._place = place
        self._headers = headers
        self._index = index
        self.max_time = max_time
        return done

    def _note_key(self, index: i64) -> None:
        self.keyless_count += 1
        if self.keyless_count <= MAX_LISTED:
            self.keyless.append(index)

    def _note_time(self, index: i64, time: i64) -> None:
        if time == self._no_time:
            return
        self.untimely_count += 1
        if self.untimely_count <= MAX_LISTED:
            self.untimely.append((index, time))
