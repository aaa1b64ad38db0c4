"""The queue of a transport: whatever is sent of it, the rest is what was queued."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.connections import MemoryFile

from moldau.machine.disk import FileSlice
from moldau.machine.network import Part
from moldau.machine.outgoing import (
    SMALL_SLICE,
    Outgoing,
    OutgoingSlice,
    in_memory,
    read_exactly,
    size_of,
)

FILE = MemoryFile(bytes(number % 251 for number in range(4 * SMALL_SLICE)))

slices = st.builds(
    FileSlice,
    st.just(FILE),
    st.integers(0, SMALL_SLICE),
    st.sampled_from([0, 1, 100, SMALL_SLICE, SMALL_SLICE + 1, 3 * SMALL_SLICE]),
)
buffers = st.binary(max_size=300).flatmap(
    lambda data: st.sampled_from([data, bytearray(data), memoryview(data)])
)


def rest_of(outgoing: Outgoing) -> bytes:
    return b"".join(
        read_exactly(part.file, part.remaining, part.position)
        if isinstance(part, OutgoingSlice)
        else part
        for part in outgoing._parts
    )


@given(parts=st.lists(buffers | slices, max_size=12), data=st.data())
def test_what_is_not_sent_stays(parts: list[Part], data: st.DataObject) -> None:
    whole = b"".join(in_memory(parts))
    assert size_of(parts) == len(whole)
    outgoing = Outgoing()
    outgoing.extend(parts)
    sent = 0
    while True:
        assert outgoing.size == len(whole) - sent
        assert rest_of(outgoing) == whole[sent:]
        if not outgoing.size:
            break
        step = data.draw(st.integers(1, outgoing.size))
        outgoing.consume(step)
        sent += step


def test_of_a_large_slice_only_its_place_is_kept() -> None:
    outgoing = Outgoing()
    outgoing.extend([b"head", FileSlice(FILE, 0, SMALL_SLICE + 1)])
    outgoing.consume(100)
    (left,) = outgoing._parts
    assert isinstance(left, OutgoingSlice)
    assert (left.position, left.remaining) == (96, SMALL_SLICE + 1 - 96)
