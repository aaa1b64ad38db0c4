"""What the property tests of record batches draw from."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st

from moldau.records.batch import LOG_APPEND_TIME
from moldau.records.compression import Compression
from moldau.records.record import Record

INNER_RUN: Final = "MOLDAU_TESTED_THE_OTHER_WAY"
"""The whole directory runs twice, compiled and plain: the second time it finds this set, and a part
of the examples is enough to see that both ways agree."""
_SHARE = 3 if INNER_RUN in os.environ else 1
moderate = settings(max_examples=40 // _SHARE, deadline=None)
thorough = settings(max_examples=150 // _SHARE, deadline=None)

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)

codecs = st.sampled_from(Compression)

# Mostly small, sometimes beyond the one- and two-byte lengths.
contents = st.one_of(
    st.none(),
    st.binary(max_size=80),
    st.builds(lambda piece, times: piece * times, st.binary(max_size=20), st.integers(0, 2000)),
)
headers = st.lists(
    st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=70)), max_size=4
).map(tuple)

real_timestamps = st.integers(1_600_000_000_000, 1_600_000_100_000) | st.integers(0, 2**62 - 1)
timestamps = real_timestamps | st.just(-1)


@st.composite
def record_lists(
    draw: st.DrawFn,
    *,
    gaps: bool = False,
    base_offset: int = 0,
    timestamps: st.SearchStrategy[int] = timestamps,
) -> list[Record]:
    """At least one record, with consecutive offsets unless ``gaps``."""
    count = draw(st.integers(1, 12))
    offset = base_offset - 1
    records = []
    for _ in range(count):
        offset += draw(st.integers(1, 100_000)) if gaps else 1
        records.append(
            Record(offset, draw(timestamps), draw(contents), draw(contents), draw(headers))
        )
    return records


batch_fields = st.fixed_dictionaries(
    {
        "producer_id": INT64,
        "producer_epoch": INT16,
        "base_sequence": INT32,
        "transactional": st.booleans(),
        "control": st.booleans(),
        "leader_epoch": INT32,
        "timestamp_type": st.sampled_from([0, LOG_APPEND_TIME]),
    }
)
