"""Codecs: Kafka's framings, levels, and what happens to damaged or hostile streams."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from contextlib import suppress

import cramjam
import pytest
from aiokafka import codec as theirs
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.records.strategies import codecs, moderate, thorough

from moldau.records.compression import Compression, compress, decompress
from moldau.records.errors import InvalidRecordError

STREAMS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
KIB = 1024

payloads = st.one_of(
    st.binary(max_size=200),
    st.builds(lambda piece, times: piece * times, st.binary(max_size=50), st.integers(0, 4000)),
)


@moderate
@given(codecs, payloads)
def test_what_was_compressed_comes_back(codec: Compression, data: bytes) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed) == data
    assert decompress(codec, memoryview(bytearray(packed))) == data
    assert decompress(codec, packed, limit=len(data)) == data
    assert compress(codec, memoryview(bytearray(data))) == packed


@moderate
@given(st.sampled_from(STREAMS), payloads.filter(bool))
def test_another_implementation_reads_ours_and_we_read_its(codec: Compression, data: bytes) -> None:
    encode = getattr(theirs, f"{codec.label}_encode")
    decode = getattr(theirs, f"{codec.label}_decode")
    assert bytes(decode(compress(codec, data))) == data
    assert decompress(codec, bytes(encode(data))) == data


def test_gzip_is_plain_gzip() -> None:
    assert gzip.decompress(compress(Compression.GZIP, b"hello" * 100)) == b"hello" * 100
    assert decompress(Compression.GZIP, gzip.compress(b"hello" * 100)) == b"hello" * 100


def test_snappy_is_written_in_blocks_of_32_kib_after_xerials_header() -> None:
    data = bytes(range(256)) * 300
    packed = compress(Compression.SNAPPY, data)
    assert packed[:16] == b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    sizes = []
    position = 16
    while position < len(packed):
        (length,) = struct.unpack_from(">i", packed, position)
        block = packed[position + 4 : position + 4 + length]
        sizes.append(len(cramjam.snappy.decompress_raw(block)))
        position += 4 + length
    assert sizes == [32 * KIB, 32 * KIB, len(data) - 64 * KIB]


def test_bare_snappy_is_read() -> None:
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(b"abc" * 50))) == (
        b"abc" * 50
    )


def test_snappy_streams_one_after_the_other_are_read() -> None:
    packed = compress(Compression.SNAPPY, b"abc") + compress(Compression.SNAPPY, b"def")
    assert decompress(Compression.SNAPPY, packed) == b"abcdef"


@pytest.mark.parametrize("level", [None, 1, 9, 12, 17])
def test_lz4_frames_have_independent_blocks_of_64_kib(level: int | None) -> None:
    # The Java client decompresses block by block, without the ones before.
    packed = compress(Compression.LZ4, b"0123456789abcdef" * 10_000, level)
    assert packed[:4] == bytes.fromhex("04224d18")
    flags, block_descriptor = packed[4], packed[5]
    assert flags >> 6 == 1  # version
    assert flags & 0x20  # independent blocks
    assert not flags & 0x08  # no content size, which Kafka would skip unread
    assert block_descriptor == 0x40


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Compression.GZIP, [-1, 1, 6, 9]),
        (Compression.LZ4, [1, 3, 9, 17]),
        (Compression.ZSTD, [-131072, -7, 1, 3, 19, 22]),
    ],
)
def test_every_level_of_kafkas_settings_works(codec: Compression, levels: list[int]) -> None:
    data = b"".join(b"%d,%d;" % (n, n * n % 977) for n in range(3000))
    sizes = {level: len(compress(codec, data, level)) for level in levels}
    assert all(decompress(codec, compress(codec, data, level)) == data for level in levels)
    assert len(set(sizes.values())) > 1
    assert codec.default_level in sizes
    assert compress(codec, data, codec.default_level) == compress(codec, data)


def test_codecs_are_known_by_the_names_in_settings() -> None:
    assert [codec.label for codec in Compression] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert all(Compression.from_label(codec.label) is codec for codec in Compression)
    assert Compression.NONE.default_level is None
    with pytest.raises(ValueError, match="brotli"):
        Compression.from_label("brotli")


@pytest.mark.parametrize("codec", [-1, 5, 6, 7])
def test_unassigned_codecs_are_refused(codec: int) -> None:
    with pytest.raises(InvalidRecordError):
        compress(codec, b"x")
    with pytest.raises(InvalidRecordError):
        decompress(codec, b"x")


@pytest.mark.parametrize("codec", list(Compression))
def test_output_beyond_the_limit_is_refused(codec: Compression) -> None:
    packed = compress(codec, bytes(100 * KIB))
    assert decompress(codec, packed, limit=100 * KIB) == bytes(100 * KIB)
    for limit in (0, 1, 1000, 100 * KIB - 1):
        with pytest.raises(InvalidRecordError, match="more than"):
            decompress(codec, packed, limit=limit)


@pytest.mark.parametrize("codec", STREAMS)
def test_ratios_far_above_the_first_guess_are_read(codec: Compression) -> None:
    size = 3_000_000
    assert decompress(codec, compress(codec, bytes(size))) == bytes(size)


@pytest.mark.parametrize("codec", STREAMS)
def test_a_bomb_takes_no_more_memory_than_the_limit(codec: Compression) -> None:
    bomb = compress(codec, bytes(64 * KIB * KIB))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRecordError):
            decompress(codec, bomb, limit=512 * KIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * 512 * KIB


@pytest.mark.parametrize(
    "lie",
    [
        b"\xff\xff\xff\xff\x0f" + bytes(20),  # bare snappy that claims 4 GiB
        b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 9) + b"\xff\xff\xff\xff\x0f" + bytes(4),
    ],
)
def test_a_claimed_size_is_not_allocated(lie: bytes) -> None:
    with pytest.raises(InvalidRecordError, match="cannot hold"):
        decompress(Compression.SNAPPY, lie)


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 100])
def test_a_snappy_block_longer_than_the_data_is_refused(length: int) -> None:
    with pytest.raises(InvalidRecordError):
        decompress(Compression.SNAPPY, b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, length) + b"x")


def test_gzip_that_lies_about_its_size_is_refused() -> None:
    packed = bytearray(compress(Compression.GZIP, b"hello"))
    packed[-4:] = b"\xff\xff\xff\xff"
    with pytest.raises(InvalidRecordError):
        decompress(Compression.GZIP, packed)


@pytest.mark.parametrize("codec", STREAMS)
def test_a_stream_cut_off_anywhere_is_refused(codec: Compression) -> None:
    data = bytes(range(256)) * 4
    packed = compress(codec, data)
    for cut in range(len(packed)):
        try:
            result = decompress(codec, packed[:cut])
        except InvalidRecordError:
            continue
        # Snappy's framing has no end mark: between two blocks it may be over.
        assert codec is Compression.SNAPPY
        assert (cut, result) == (16, b"")


ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
PLAIN_BLOCK = (3 << 3).to_bytes(3, "little") + b"abc"
EMPTY_LAST_BLOCK = b"\x01\0\0"


@pytest.mark.parametrize(
    ("head", "is_right"),
    [
        (b"\x20\x03", True),
        (b"\x20\x04", False),
        (b"\x20\x02", False),
        (b"\x60\0\0", False),  # 256, the least that two bytes can say
        (b"\x80\x50" + struct.pack("<I", 3), True),
        (b"\x80\x50" + struct.pack("<I", 100_000), False),
        (b"\xc0\x50" + struct.pack("<Q", 3), True),
        (b"\xc0\x50" + struct.pack("<Q", 2**40), False),
        (b"\xc0\x50" + struct.pack("<Q", 2**63 + 3), False),
        (b"\xc0\x50" + struct.pack("<Q", 2**64 - 2), False),
        (b"\xc0\x50" + struct.pack("<Q", 2**64 - 1), True),  # as much as not to say it
        (b"\0\x50", True),
    ],
    ids=lambda value: value.hex() if isinstance(value, bytes) else "",
)
def test_a_zstd_frame_holds_what_it_claims(head: bytes, is_right: bool) -> None:
    """The decoder does not look where the last block is empty; consumers that decompress at once
    do.
    """
    frame = ZSTD_MAGIC + head + PLAIN_BLOCK + EMPTY_LAST_BLOCK
    if is_right:
        assert decompress(Compression.ZSTD, frame) == b"abc"
    else:
        with pytest.raises(InvalidRecordError):
            decompress(Compression.ZSTD, frame)
    others = ZSTD_MAGIC + b"\0\x50" + PLAIN_BLOCK + EMPTY_LAST_BLOCK
    assert decompress(Compression.ZSTD, 2 * others) == b"abcabc"


@thorough
@given(st.sampled_from(STREAMS), st.binary(max_size=300))
def test_garbage_only_gives_our_error(codec: Compression, data: bytes) -> None:
    with suppress(InvalidRecordError):
        decompress(codec, data, limit=1_000_000)


@thorough
@given(st.sampled_from(STREAMS), st.data())
def test_damage_only_gives_our_error(codec: Compression, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, b"".join(b"%d;" % n for n in range(300))))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(InvalidRecordError):
        decompress(codec, packed, limit=1_000_000)
