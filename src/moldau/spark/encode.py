"""Columns of rows to the bytes of records, without an object per row.

A record is some numbers of variable length, the key, the value and the headers. What numbers are in
bytes stands in tables; one pass over memory then puts the pieces of all records next to each other.
A batch at a time: its columns stay in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from moldau.client.producer.record import EncodedRecords
from moldau.records.builder import MAX_RECORD_OVERHEAD
from moldau.records.varint import INT32_BYTES, encode_varint

Ints = npt.NDArray[np.integer]
NULL: Final = -1
"""The length of what is null, in records as in columns here."""

_HEADERS: Final = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
_TABLE_SIZE: Final = 32768


class Piece(NamedTuple):
    """A part of each row: rows of an array, or the same one for all."""

    array: pa.Array
    rows: Ints | int
    lengths: Ints | int


Part = bytes | Ints | Piece
"""Of each row: the same bytes for all, a number of variable length, or bytes of its own."""


class Columns(NamedTuple):
    """Rows of one topic; the same number of each."""

    values: pa.Array
    """Bytes, as the keys."""
    keys: pa.Array | None
    timestamps: Ints | int
    """In milliseconds; a number if all are the same."""
    headers: pa.Array | None
    """As ``encode_headers`` makes them."""

    def sizes(self) -> Ints:
        """Bytes that each record takes at most."""
        sizes = lengths(self.values).clip(0) + MAX_RECORD_OVERHEAD
        for column in (self.keys, self.headers):
            if column is not None:
                sizes += lengths(column).clip(0)
        return sizes

    def slice(self, start: int, stop: int) -> Self:
        return self._replace(
            values=self.values[start:stop],
            keys=None if self.keys is None else self.keys[start:stop],
            timestamps=self.timestamps
            if isinstance(self.timestamps, int)
            else self.timestamps[start:stop],
            headers=None if self.headers is None else self.headers[start:stop],
        )

    def take(self, rows: Ints) -> Self:
        index = pa.array(rows)
        return self._replace(
            values=_take(self.values, index),
            keys=None if self.keys is None else _take(self.keys, index),
            timestamps=self.timestamps
            if isinstance(self.timestamps, int)
            else self.timestamps[rows],
            headers=None if self.headers is None else _take(self.headers, index),
        )


def encode(columns: Columns) -> EncodedRecords:
    """All rows as the records of one batch."""
    count = len(columns.values)
    attributes, headers = b"\x00", columns.headers
    parts: list[Part] = []
    if isinstance(columns.timestamps, int):
        base = columns.timestamps
        attributes += encode_varint(0)
    else:
        base = int(columns.timestamps[0])
        parts.append(columns.timestamps - base)
    parts += _rows(count), *_prefixed(columns.keys), *_prefixed(columns.values)
    if headers is not None:
        parts.append(_bytes(headers, lengths(headers)))
    pieces = _pieces(parts)
    # What ends every record goes before the next one: a piece less for each.
    last = encode_varint(0) if headers is None else b""
    body: Any = sum(piece.lengths for piece in pieces) + len(attributes) + len(last)
    size = _number(last, body, attributes)
    data = _interleave(count, [*size, *pieces], last)
    return EncodedRecords(
        memoryview(data)[len(last) :],
        count,
        base,
        base if isinstance(columns.timestamps, int) else int(columns.timestamps.max()),
        int(body.max()) + INT32_BYTES,
    )


def encode_headers(column: pa.Array) -> pa.Array:
    """The headers of each row as a record has them: their number, then names and values."""
    lists = column.cast(_HEADERS)
    number = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    flat = lists.flatten()
    names, values = pc.struct_field(flat, "key"), pc.struct_field(flat, "value")
    if names.null_count:
        raise ValueError("A header has null for its key")
    bounds, data = _join(len(flat), [*_prefixed(names), *_prefixed(values)])
    bounds = bounds[_bounds(number, len(lists))]
    per_row = _bytes(_array(bounds, data), np.diff(bounds))
    return _array(*_join(len(lists), [number, per_row]))


def lengths(column: pa.Array) -> Ints:
    """Of bytes; -1 for null."""
    found = pc.binary_length(column)
    known: Ints = (found.fill_null(NULL) if found.null_count else found).to_numpy()
    return known


def _prefixed(column: pa.Array | None) -> Sequence[Part]:
    """Bytes behind their length."""
    if column is None:
        return (encode_varint(NULL),)
    sizes = lengths(column)
    content = _bytes(column, sizes)
    if len(sizes) and int(sizes.min()) == int(sizes.max()):
        return encode_varint(int(sizes[0])), content
    return sizes, content


def _bytes(column: pa.Array, sizes: Ints) -> Piece:
    return Piece(column, _rows(len(column)), sizes.clip(0) if column.null_count else sizes)


def _pieces(parts: Iterable[Part]) -> list[Piece]:
    """Bytes that are the same for all join the number before them, or the one after."""
    pieces: list[Piece] = []
    before, number, after = b"", None, b""
    for part in [*parts, None]:
        if isinstance(part, bytes):
            if number is None:
                before += part
            else:
                after += part
            continue
        pieces += _number(before, number, after)
        before, number, after = b"", None, b""
        if isinstance(part, np.ndarray):
            number = part
        elif part is not None:
            pieces.append(part)
    return pieces


def _number(before: bytes, values: Ints | None, after: bytes) -> list[Piece]:
    if values is None or not len(values):
        return [_constant(before + after)] if before or after else []
    most = int(values.max())
    if most < _TABLE_SIZE and int(values.min()) >= NULL:
        array, sizes = _table(before, after)
        rows = values - NULL
        return [Piece(array[: most - NULL + 1], rows, sizes[rows])]
    array, sizes = _varints(values)
    number = Piece(array, _rows(len(values)), sizes)
    return [*_number(before, None, b""), number, *_number(b"", None, after)]


def _rows(count: int) -> Ints:
    return _ROWS[:count] if count <= _TABLE_SIZE else np.arange(count, dtype=np.int32)


@lru_cache(64)
def _constant(data: bytes) -> Piece:
    return Piece(pa.array([data], pa.binary()), 0, len(data))


@lru_cache(16)
def _table(before: bytes, after: bytes) -> tuple[pa.Array, Ints]:
    """What most numbers are in bytes, from the length of null on, and how many bytes these are."""
    if not before and not after:
        return _varints(np.arange(NULL, _TABLE_SIZE))
    array, sizes = _table(b"", b"")
    joined = pc.binary_join_element_wise(pa.scalar(before), array, pa.scalar(after), pa.scalar(b""))
    return joined, sizes + (len(before) + len(after))


def _varints(values: Ints) -> tuple[pa.Array, Ints]:
    """Any numbers, a step over all of them for each byte of the longest."""
    wide = values.astype(np.int64)
    zigzag = ((wide << 1) ^ (wide >> 63)).view(np.uint64)
    data, used = [], [np.ones(len(wide), np.bool_)]
    while used[-1].any():
        more = zigzag >= 0x80
        data.append((zigzag & 0x7F).astype(np.uint8) | more.view(np.uint8) << 7)
        used.append(more)
        zigzag = zigzag >> np.uint64(7)
    there = np.stack(used[:-1], axis=1)
    sizes = there.sum(axis=1, dtype=np.int32)
    return _array(_bounds(sizes, len(wide)), pa.py_buffer(np.stack(data, axis=1)[there])), sizes


def _join(count: int, parts: Iterable[Part]) -> tuple[Ints, pa.Buffer]:
    """Where the parts of each row begin when they are put together, and the bytes."""
    pieces = _pieces(parts)
    return _bounds(sum(piece.lengths for piece in pieces), count), _interleave(count, pieces)


def _interleave(count: int, pieces: Sequence[Piece], last: bytes = b"") -> pa.Buffer:
    """The bytes of each piece's row, piece by piece, row by row, and then some more."""
    index = np.empty(count * len(pieces) + 1, np.int32)
    table = index[:-1].reshape(count, len(pieces))
    first = 0
    for place, piece in enumerate(pieces):
        np.add(piece.rows, first, out=table[:, place], casting="unsafe")
        first += len(piece.array)
    index[-1] = first
    arrays = [piece.array for piece in pieces]
    everything = pa.concat_arrays([*arrays, _constant(last).array])
    return _take(everything, pa.array(index)).buffers()[2] or pa.py_buffer(b"")


def _take(column: pa.Array, rows: pa.Array) -> pa.Array:
    return pc.take(column, rows, boundscheck=False)


def _bounds(sizes: Ints | int, count: int) -> Ints:
    """Where each row begins, and where the last one ends."""
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(np.broadcast_to(sizes, count), out=bounds[1:])
    return bounds


def _array(bounds: Ints, data: pa.Buffer) -> pa.Array:
    places = pa.py_buffer(bounds.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, places, data])


_ROWS: Final = np.arange(_TABLE_SIZE, dtype=np.int32)
