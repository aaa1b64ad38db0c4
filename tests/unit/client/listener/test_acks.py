"""The committable offset is the lowest unfinished one, in whatever order records are finished."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.listener.acks import AckTracker
from moldau.client.listener.finished import read_finished, write_finished
from moldau.model import OffsetAndMetadata


def test_nothing_is_committable_before_the_first_delivery() -> None:
    assert AckTracker().committable is None


def test_a_gap_holds_the_commit_back() -> None:
    tracker = AckTracker()
    for offset in (10, 11, 15):
        tracker.delivered(offset, leader_epoch=4)
    assert tracker.finished(11) == 0
    assert tracker.committable == OffsetAndMetadata(10, "moldau:10:1")
    assert tracker.finished(10) == 2
    assert tracker.committable == OffsetAndMetadata(15, "", 4)
    assert (tracker.window, tracker.unfinished) == (1, 1)
    assert tracker.finished(15) == 1
    assert tracker.committable == OffsetAndMetadata(16, "", 4)


def test_a_batch_counts_when_all_of_it_is_finished() -> None:
    tracker = AckTracker()
    tracker.delivered(0)
    tracker.delivered(1)
    tracker.end_batch()
    tracker.delivered(2)
    tracker.end_batch()
    tracker.finished(2)
    tracker.finished(0)
    assert tracker.committable_batches is None
    tracker.finished(1)
    assert tracker.committable_batches == OffsetAndMetadata(3)


def test_records_do_not_come_backwards() -> None:
    tracker = AckTracker()
    tracker.delivered(5)
    with pytest.raises(ValueError, match="offset 5 was delivered after offset 5"):
        tracker.delivered(5)


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=30).flatmap(
        lambda gaps: st.tuples(
            st.just([sum(gaps[: n + 1]) for n in range(len(gaps))]),
            st.permutations(range(len(gaps))),
            st.integers(0, len(gaps)),
        )
    )
)
def test_any_order_of_finishing(case: tuple[list[int], list[int], int]) -> None:
    offsets, order, stop = case
    tracker = AckTracker()
    for offset in offsets:
        tracker.delivered(offset)
    moved = 0
    unfinished = set(offsets)
    for index in order[:stop]:
        moved += tracker.finished(offsets[index])
        unfinished.discard(offsets[index])
        expected = min(unfinished, default=offsets[-1] + 1)
        committable = tracker.committable
        assert committable is not None
        assert committable.offset == expected
        assert read_finished(committable) == {
            offset for offset in set(offsets) - unfinished if offset >= expected
        }
        assert tracker.window == sum(offset >= expected for offset in offsets)
        assert tracker.unfinished == len(unfinished)
    assert moved == len(offsets) - tracker.window


def test_what_an_earlier_owner_finished_is_not_delivered_again() -> None:
    tracker = AckTracker(frozenset({6, 7}))
    assert [tracker.delivered(offset) for offset in (5, 6, 7, 8)] == [True, False, False, True]
    tracker.finished(5)
    assert tracker.committable == OffsetAndMetadata(8)


@given(st.integers(0, 2**60), st.sets(st.integers(1, 60)))
def test_finished_offsets_go_through_the_metadata(committed: int, deltas: set[int]) -> None:
    offsets = {committed + delta for delta in deltas}
    written = OffsetAndMetadata(committed, write_finished(committed, offsets))
    assert read_finished(written) == offsets


def test_what_does_not_fit_into_the_metadata_is_left_out() -> None:
    offsets = set(range(1, 10_000, 2))
    written = OffsetAndMetadata(0, write_finished(0, offsets))
    assert len(written.metadata) < 4096
    found = read_finished(written)
    assert found < offsets
    assert len(found) > 500


@pytest.mark.parametrize(
    "metadata", ["", "somebody else's", "moldau:", "moldau:5:x-2", "moldau:x:1"]
)
def test_metadata_of_others_means_nothing(metadata: str) -> None:
    assert read_finished(OffsetAndMetadata(5, metadata)) == frozenset()
