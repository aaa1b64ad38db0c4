from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.memory_network import frame

from moldau.net.errors import FrameSizeError
from moldau.net.frames import KIB, LARGE_STEP, MIB, SCRATCH_SIZE, BufferPool, FrameReader

LIMIT = 100 * MIB


def feed(reader: FrameReader, data: bytes) -> list[bytes]:
    """Read ``data`` as a transport does; copies of the frames that it completes."""
    found = []
    while data:
        view = reader.get_buffer()
        nbytes = min(len(view), len(data))
        assert nbytes
        view[:nbytes] = data[:nbytes]
        data = data[nbytes:]
        reader.received(nbytes)
        while (body := reader.next_frame()) is not None:
            found.append(bytes(body))
    return found


def body_of(size: int, seed: int) -> bytes:
    return (seed.to_bytes(4, "big") * (size // 4 + 1))[:size]


sizes = st.one_of(
    st.integers(0, 200),
    st.integers(0, 3 * 256),
    st.sampled_from([1019, 1020, 1021, 1024, 5000]),
)


@settings(deadline=None)
@given(
    st.lists(st.lists(sizes, max_size=8), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 1500)), max_size=60),
)
def test_frames_survive_any_chunking_and_any_interleaving_of_connections(
    sizes_of: list[list[int]], steps: list[tuple[int, int]]
) -> None:
    # A scratch buffer of 1 KiB, so that small frames already take the way of large ones.
    pool = BufferPool(scratch_size=KIB)
    bodies = [
        [body_of(size, 1000 * peer + index) for index, size in enumerate(sizes)]
        for peer, sizes in enumerate(sizes_of)
    ]
    streams = [b"".join(map(frame, peer_bodies)) for peer_bodies in bodies]
    readers = [FrameReader(pool, LIMIT) for _ in streams]
    found: list[list[bytes]] = [[] for _ in streams]
    rest = [(peer, len(stream) + 1) for peer, stream in enumerate(streams)]
    for peer, nbytes in [*steps, *rest]:
        if peer < len(streams):
            found[peer] += feed(readers[peer], streams[peer][:nbytes])
            streams[peer] = streams[peer][nbytes:]
    assert found == bodies
    assert all(reader.buffered == 0 for reader in readers)


@settings(deadline=None)
@given(st.lists(st.integers(1000, 40 * KIB), min_size=1, max_size=30), st.integers(0, 200 * KIB))
def test_large_frames_survive_any_chunking(chunks: list[int], size: int) -> None:
    reader = FrameReader(BufferPool(), LIMIT)
    body = body_of(size, 7)
    stream = frame(body) + frame(b"next")
    found: list[bytes] = []
    while stream:
        for chunk in chunks:
            found += feed(reader, stream[:chunk])
            stream = stream[chunk:]
    assert found == [body, b"next"]


def test_a_frame_is_a_writable_view_of_the_buffer_it_was_read_into() -> None:
    pool = BufferPool()
    reader = FrameReader(pool, LIMIT)
    view = reader.get_buffer()
    assert view.obj is pool.scratch.obj
    view[:8] = frame(b"abcd")
    reader.received(8)
    body = reader.next_frame()
    assert body is not None
    assert body.obj is pool.scratch.obj
    body[0] = ord("z")
    assert bytes(pool.scratch[:8]) == frame(b"zbcd")


@pytest.mark.parametrize("size", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_an_impossible_size_is_refused_before_anything_is_allocated(size: int) -> None:
    reader = FrameReader(BufferPool(), LIMIT)
    with pytest.raises(FrameSizeError) as caught:
        feed(reader, struct.pack(">i", size) + b"rest")
    assert caught.value.size == size
    assert caught.value.start == struct.pack(">i", size) + b"rest"


def test_the_largest_allowed_size_is_accepted() -> None:
    assert feed(FrameReader(BufferPool(), 10), frame(b"x" * 10)) == [b"x" * 10]


def test_memory_follows_what_arrived_and_not_what_was_announced() -> None:
    pool = BufferPool()
    reader = FrameReader(pool, LIMIT)
    feed(reader, struct.pack(">i", LIMIT))
    assert reader._view.nbytes == 4
    received = 4
    for chunk in (64 * KIB, 256 * KIB, MIB, MIB, 4 * MIB):
        feed(reader, bytes(chunk))
        received += chunk
        assert reader._view.nbytes <= 4 * received + LARGE_STEP


def test_a_large_frame_is_read_exactly_to_its_end() -> None:
    reader = FrameReader(BufferPool(), LIMIT)
    body = body_of(300 * KIB, 3)
    stream = frame(body)
    assert feed(reader, stream[: 100 * KIB]) == []
    room = 0
    while 100 * KIB + room < len(stream):
        view = reader.get_buffer()
        assert len(view) <= len(stream) - 100 * KIB - room
        view[:] = stream[100 * KIB + room : 100 * KIB + room + len(view)]
        room += len(view)
        reader.received(len(view))
    found = reader.next_frame()
    assert found is not None
    assert bytes(found) == body


def test_the_buffer_of_a_large_frame_is_used_again_by_another_connection() -> None:
    pool = BufferPool()
    first, second = FrameReader(pool, LIMIT), FrameReader(pool, LIMIT)
    assert feed(first, frame(bytes(MIB))) == [bytes(MIB)]
    kept = pool.kept_bytes
    assert MIB <= kept <= MIB + 2 * LARGE_STEP
    feed(second, frame(body_of(MIB, 1))[: 512 * KIB])
    assert pool.kept_bytes == 0
    assert feed(second, frame(body_of(MIB, 1))[512 * KIB :]) == [body_of(MIB, 1)]
    assert pool.kept_bytes == kept


def test_the_pool_keeps_no_more_than_its_limits() -> None:
    pool = BufferPool(keep_bytes=2 * MIB, keep_largest=MIB)
    pool.give(memoryview(bytearray(MIB + 1)))
    assert pool.kept_bytes == 0
    for _ in range(5):
        pool.give(memoryview(bytearray(MIB)))
    assert pool.kept_bytes == 2 * MIB


def test_trimming_lets_go_only_of_what_was_not_needed_since() -> None:
    pool = BufferPool()
    for _ in range(3):
        pool.give(memoryview(bytearray(MIB)))
    pool.trim()
    assert pool.kept_bytes == 3 * MIB
    taken = pool.take(MIB, MIB)
    pool.give(taken)
    pool.trim()
    assert pool.kept_bytes == MIB
    pool.trim()
    assert pool.kept_bytes == 0


def test_parked_bytes_are_safe_from_other_connections() -> None:
    pool = BufferPool()
    first, second = FrameReader(pool, LIMIT), FrameReader(pool, LIMIT)
    data = frame(b"one") + frame(b"two") + frame(b"three")[:5]
    first.get_buffer()[: len(data)] = data
    first.received(len(data))
    assert bytes(first.next_frame() or b"") == b"one"
    first.park()
    assert feed(second, frame(b"x" * 1000)) == [b"x" * 1000]
    assert bytes(first.next_frame() or b"") == b"two"
    assert first.next_frame() is None
    assert feed(first, frame(b"three")[5:]) == [b"three"]


def test_parking_after_the_last_frame_leaves_a_clean_reader() -> None:
    for size in (3, 2 * SCRATCH_SIZE):
        reader = FrameReader(BufferPool(), LIMIT)
        stream = frame(bytes(size))
        while stream:
            view = reader.get_buffer()
            nbytes = min(len(view), len(stream))
            view[:nbytes] = stream[:nbytes]
            stream = stream[nbytes:]
            reader.received(nbytes)
            if stream:
                assert reader.next_frame() is None
        assert reader.next_frame() is not None
        reader.park()
        assert reader.buffered == 0
        assert feed(reader, frame(b"next")) == [b"next"]


def test_reading_on_a_full_parked_buffer_is_an_error_not_an_end_of_file() -> None:
    reader = FrameReader(BufferPool(scratch_size=8), LIMIT)
    reader.get_buffer()[:] = frame(b"full")
    reader.received(8)
    reader.park()
    with pytest.raises(BufferError):
        reader.get_buffer()


@pytest.mark.parametrize("size", [10, SCRATCH_SIZE - 4, SCRATCH_SIZE, 3 * MIB])
def test_a_kept_frame_stays_as_it_was(size: int) -> None:
    pool = BufferPool()
    reader = FrameReader(pool, LIMIT)
    kept = []
    for seed in range(3):
        stream = frame(body_of(size, seed))
        while stream:
            view = reader.get_buffer()
            nbytes = min(len(view), len(stream))
            view[:nbytes] = stream[:nbytes]
            stream = stream[nbytes:]
            reader.received(nbytes)
            while (body := reader.next_frame()) is not None:
                kept.append(reader.keep_frame(body))
    assert kept == [body_of(size, seed) for seed in range(3)]
    assert pool.kept_bytes == 0


def test_a_large_frame_that_was_kept_can_be_given_back_and_read_into_again() -> None:
    pool = BufferPool(keep_bytes=MIB)
    reader = FrameReader(pool, LIMIT)
    buffers = []
    for seed in range(3):
        stream, body = frame(body_of(300_000, seed)), None
        while body is None:
            view = reader.get_buffer()
            nbytes = min(len(view), len(stream))
            view[:nbytes] = stream[:nbytes]
            stream = stream[nbytes:]
            reader.received(nbytes)
            body = reader.next_frame()
        kept = reader.keep_frame(body)
        assert kept == body_of(300_000, seed)
        pool.recycle(kept[100:200])  # any part of it names it
        buffers.append(kept.obj)
    assert buffers[0] is buffers[1] is buffers[2]
    pool.recycle(memoryview(b"a small one is a copy"))
    assert pool.kept_bytes == len(memoryview(buffers[2]))
