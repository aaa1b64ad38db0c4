"""Incremental fetch sessions: epochs, what is news, fairness, eviction."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from dataclasses import dataclass, field
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from moldau.broker.fetch_sessions import (
    LARGE_FETCH,
    MAX_EPOCH,
    MOST_WAITING,
    PARTITIONS_PER_SLOT,
    PARTITIONS_PER_TURN,
    FetchContext,
    FetchSessions,
)
from moldau.errors import ErrorCode
from moldau.wire.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchTopic

EVICTION_MS = 120_000
FINAL = -1


def want(partition: int, offset: int = 0) -> FetchPartition:
    return FetchPartition(partition, -1, offset, -1, -1, 1 << 20)


def request(
    session_id: int = 0,
    epoch: int = 0,
    wanted: dict[tuple[str, int], int] | None = None,
    forgotten: list[tuple[str, int]] | None = None,
    *,
    ids: bool = False,
    replica_id: int = -1,
) -> FetchRequest:
    """``wanted`` maps (topic, partition) to the offset asked for."""
    topics: dict[str, FetchTopic] = {}
    for (name, partition), offset in (wanted or {}).items():
        topic = topics.setdefault(
            name, FetchTopic(None if ids else name, topic_id(name) if ids else None, [])
        )
        topic.partitions.append(want(partition, offset))
    return FetchRequest(
        replica_id=replica_id,
        replica_epoch=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=list(topics.values()),
        forgotten=[
            (None if ids else name, topic_id(name) if ids else None, [partition])
            for name, partition in forgotten or []
        ],
    )


def topic_id(name: str) -> UUID:
    return UUID(bytes=name.encode().ljust(16, b"\0"))


def make_sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, EVICTION_MS, randomness=random.Random(1))


def open_session(
    sessions: FetchSessions,
    asked: FetchRequest,
    *,
    ids: bool = False,
    now: float = 0.0,
) -> FetchContext:
    context = sessions.open(asked, uses_topic_ids=ids, now=now)
    if context.starts_session:
        sessions.start(context, uses_topic_ids=ids, now=now, replica_id=asked.replica_id)
    return context


def asked_for(context: FetchContext) -> list[tuple[str | None, int, int]]:
    """What is read, in order: topic, partition, offset."""
    return [(p.key[0], p.key[2], p.fetch_offset) for p in context.partitions]


def answer(
    context: FetchContext,
    *,
    records: dict[tuple[str | None, int], bytes] | None = None,
    high_watermark: int = 0,
    log_start: int = 0,
    errors: dict[tuple[str | None, int], int] | None = None,
) -> list[tuple[str | None, int]]:
    """Let the session choose among answers; gives back those (topic, partition) it would send."""
    found = []
    for partition in context.partitions:
        name = (partition.key[0], partition.key[2])
        code = (errors or {}).get(name, 0)
        fetched = (
            FetchedPartition(partition.key[2], code, records=b"")
            if code
            else FetchedPartition(
                partition.key[2],
                0,
                high_watermark,
                high_watermark,
                log_start,
                records=(records or {}).get(name, b""),
            )
        )
        found.append((partition, fetched))
    return [(chosen.key[0], chosen.key[2]) for chosen, _ in context.select(found)]


# Starting and ending -----------------------------------------------------------------------------


def test_epoch_minus_one_without_a_session_is_a_plain_fetch() -> None:
    sessions = make_sessions()
    context = open_session(sessions, request(epoch=FINAL, wanted={("a", 0): 5, ("b", 1): 7}))
    assert asked_for(context) == [("a", 0, 5), ("b", 1, 7)]
    assert (context.session_id, context.error, len(sessions)) == (0, 0, 0)
    assert answer(context) == [("a", 0), ("b", 1)], "a full answer leaves nothing out"


def test_epoch_zero_starts_a_session_and_answers_everything() -> None:
    sessions = make_sessions()
    context = open_session(sessions, request(wanted={("a", 0): 5, ("b", 1): 7}))
    assert context.session_id > 0
    assert asked_for(context) == [("a", 0, 5), ("b", 1, 7)]
    assert answer(context) == [("a", 0), ("b", 1)]
    assert len(sessions) == 1


def test_a_full_fetch_without_partitions_starts_no_session() -> None:
    sessions = make_sessions()
    context = open_session(sessions, request())
    assert (context.session_id, context.partitions, len(sessions)) == (0, [], 0)


def test_starting_again_replaces_the_session() -> None:
    sessions = make_sessions()
    first = open_session(sessions, request(wanted={("a", 0): 0}))
    second = open_session(sessions, request(first.session_id, 0, {("b", 0): 0}))
    assert second.session_id not in (0, first.session_id)
    assert asked_for(second) == [("b", 0, 0)]
    gone = open_session(sessions, request(first.session_id, 1))
    assert gone.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_final_epoch_ends_the_session_and_is_served_as_a_plain_fetch() -> None:
    sessions = make_sessions()
    started = open_session(sessions, request(wanted={("a", 0): 0}))
    last = open_session(sessions, request(started.session_id, FINAL, {("b", 3): 1}))
    assert asked_for(last) == [("b", 3, 1)]
    assert (last.session_id, len(sessions)) == (0, 0)


def test_forgetting_the_last_partition_ends_the_session() -> None:
    sessions = make_sessions()
    started = open_session(sessions, request(wanted={("a", 0): 0}))
    emptied = open_session(sessions, request(started.session_id, 1, forgotten=[("a", 0)]))
    assert (emptied.partitions, emptied.session_id, emptied.error) == ([], 0, 0)
    assert len(sessions) == 0


# Steps -------------------------------------------------------------------------------------------


def test_a_step_reads_what_the_session_knows_with_the_changes_of_the_request() -> None:
    sessions = make_sessions()
    wanted = {("a", 0): 0, ("a", 1): 0, ("b", 0): 0}
    session_id = open_session(sessions, request(wanted=wanted)).session_id
    unchanged = open_session(sessions, request(session_id, 1))
    assert asked_for(unchanged) == [("a", 0, 0), ("a", 1, 0), ("b", 0, 0)]
    assert unchanged.session_id == session_id
    moved = open_session(sessions, request(session_id, 2, {("a", 1): 9, ("c", 4): 2}))
    assert asked_for(moved) == [("a", 0, 0), ("a", 1, 9), ("b", 0, 0), ("c", 4, 2)]
    fewer = open_session(sessions, request(session_id, 3, forgotten=[("a", 0), ("nope", 1)]))
    assert asked_for(fewer) == [("a", 1, 9), ("b", 0, 0), ("c", 4, 2)]


@pytest.mark.parametrize("epoch", [0 + 2, 5, MAX_EPOCH, -2, -7])
def test_any_epoch_but_the_next_is_refused(epoch: int) -> None:
    sessions = make_sessions()
    session_id = open_session(sessions, request(wanted={("a", 0): 0})).session_id
    wrong = open_session(sessions, request(session_id, epoch))
    assert (wrong.error, wrong.partitions) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])
    right = open_session(sessions, request(session_id, 1))
    assert right.error == 0, "a refused request leaves the session as it was"


def test_the_same_epoch_twice_is_refused() -> None:
    sessions = make_sessions()
    session_id = open_session(sessions, request(wanted={("a", 0): 0})).session_id
    open_session(sessions, request(session_id, 1))
    again = open_session(sessions, request(session_id, 1))
    assert again.error is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_after_the_largest_epoch_comes_one() -> None:
    sessions = make_sessions()
    session_id = open_session(sessions, request(wanted={("a", 0): 0})).session_id
    (session,) = sessions._sessions.values()
    session.epoch = MAX_EPOCH
    assert open_session(sessions, request(session_id, MAX_EPOCH)).error == 0
    assert open_session(sessions, request(session_id, 1)).error == 0


def test_an_unknown_session_is_refused() -> None:
    context = open_session(make_sessions(), request(4711, 1))
    assert (context.error, context.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)


@pytest.mark.parametrize("began_with_ids", [False, True])
def test_a_session_of_names_is_not_continued_with_ids_nor_the_other_way(
    began_with_ids: bool,
) -> None:
    sessions = make_sessions()
    began = request(wanted={("a", 0): 0}, ids=began_with_ids)
    session_id = open_session(sessions, began, ids=began_with_ids).session_id
    other = request(session_id, 1, ids=not began_with_ids)
    context = open_session(sessions, other, ids=not began_with_ids)
    assert context.error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_sessions_of_ids_know_their_topics_by_id() -> None:
    sessions = make_sessions()
    began = request(wanted={("a", 0): 0, ("b", 0): 0}, ids=True)
    session_id = open_session(sessions, began, ids=True).session_id
    step = request(session_id, 1, forgotten=[("a", 0)], ids=True)
    context = open_session(sessions, step, ids=True)
    assert [p.key for p in context.partitions] == [(None, topic_id("b"), 0)]


# What is news ------------------------------------------------------------------------------------


def test_a_step_without_news_answers_nothing() -> None:
    sessions = make_sessions()
    began = open_session(sessions, request(wanted={("a", 0): 0, ("b", 0): 0}))
    answer(began, high_watermark=5)
    assert answer(open_session(sessions, request(began.session_id, 1)), high_watermark=5) == []


@pytest.mark.parametrize(
    "news",
    [
        {"high_watermark": 6},
        {"log_start": 2},
        {"records": {("a", 0): b"batch"}},
        {"errors": {("a", 0): int(ErrorCode.NOT_LEADER_OR_FOLLOWER)}},
    ],
    ids=["high watermark", "log start", "records", "error"],
)
def test_a_step_answers_partitions_with_news(news: dict[str, object]) -> None:
    sessions = make_sessions()
    began = open_session(sessions, request(wanted={("a", 0): 0}))
    answer(began, high_watermark=5)
    step = open_session(sessions, request(began.session_id, 1))
    assert answer(step, **{"high_watermark": 5, **news}) == [("a", 0)]  # type: ignore[arg-type]
    if "records" not in news and "errors" not in news:
        step = open_session(sessions, request(began.session_id, 2))
        assert answer(step, **{"high_watermark": 5, **news}) == []  # type: ignore[arg-type]


def test_the_first_good_answer_after_an_error_is_news() -> None:
    sessions = make_sessions()
    began = open_session(sessions, request(wanted={("a", 0): 0}))
    answer(began, high_watermark=5)
    failed: dict[tuple[str | None, int], int] = {("a", 0): int(ErrorCode.UNKNOWN_TOPIC_ID)}
    for epoch in (1, 2):
        step = open_session(sessions, request(began.session_id, epoch))
        assert answer(step, errors=failed) == [("a", 0)], "an error is told every time"
    step = open_session(sessions, request(began.session_id, 3))
    assert answer(step, high_watermark=5) == [("a", 0)]
    step = open_session(sessions, request(began.session_id, 4))
    assert answer(step, high_watermark=5) == []


def test_a_diverging_epoch_is_news() -> None:
    sessions = make_sessions()
    began = open_session(sessions, request(wanted={("a", 0): 0}))
    answer(began, high_watermark=5)
    (partition,) = open_session(sessions, request(began.session_id, 1)).partitions
    diverging = FetchedPartition(0, 0, 5, 5, 0, records=b"", diverging_epoch=(1, 3))
    assert partition.is_news(diverging)


def test_a_partition_that_joins_is_news() -> None:
    sessions = make_sessions()
    began = open_session(sessions, request(wanted={("a", 0): 0}))
    answer(began, high_watermark=5)
    step = open_session(sessions, request(began.session_id, 1, {("b", 0): 0}))
    assert answer(step, high_watermark=5) == [("b", 0)]


# Fairness ----------------------------------------------------------------------------------------


def test_partitions_that_had_data_are_read_last_next_time() -> None:
    sessions = make_sessions()
    wanted = {("a", 0): 0, ("a", 1): 0, ("b", 0): 0}
    began = open_session(sessions, request(wanted=wanted))
    answer(began)
    step = open_session(sessions, request(began.session_id, 1))
    answer(step, records={("a", 0): b"batch"})
    step = open_session(sessions, request(began.session_id, 2))
    assert [p[:2] for p in asked_for(step)] == [("a", 1), ("b", 0), ("a", 0)]
    answer(step, records={("a", 1): b"batch", ("a", 0): b"batch"})
    step = open_session(sessions, request(began.session_id, 3))
    assert [p[:2] for p in asked_for(step)] == [("b", 0), ("a", 1), ("a", 0)]


# The cache ---------------------------------------------------------------------------------------


def test_a_full_cache_gives_no_session_but_serves_the_fetch() -> None:
    sessions = make_sessions(slots=2)
    for _ in range(2):
        assert open_session(sessions, request(wanted={("a", 0): 0})).session_id
    refused = open_session(sessions, request(wanted={("a", 0): 0}), now=1.0)
    assert (refused.session_id, refused.error) == (0, 0)
    assert asked_for(refused) == [("a", 0, 0)]
    assert len(sessions) == 2


def test_a_session_idle_for_long_makes_room_the_longest_unused_first() -> None:
    sessions = make_sessions(slots=2)
    first = open_session(sessions, request(wanted={("a", 0): 0}), now=0.0).session_id
    second = open_session(sessions, request(wanted={("a", 0): 0}), now=1.0).session_id
    assert open_session(sessions, request(first, 1), now=60.0).error == 0
    new = open_session(sessions, request(wanted={("b", 0): 0}), now=125.0)
    assert new.session_id
    gone = open_session(sessions, request(second, 1), now=126.0)
    assert gone.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert open_session(sessions, request(first, 2), now=126.0).error == 0


def test_a_session_whose_first_answer_is_not_told_makes_nobody_leave() -> None:
    sessions = make_sessions(slots=1)
    old = open_session(sessions, request(wanted={("a", 0): 0}))
    held_back = sessions.open(request(wanted={("b", 0): 0}), uses_topic_ids=False, now=1e9)
    assert held_back.session_id == 0
    step = open_session(sessions, request(old.session_id, 1), now=1e9)
    assert not step.error


def test_without_slots_there_are_no_sessions() -> None:
    sessions = make_sessions(slots=0)
    context = open_session(sessions, request(wanted={("a", 0): 0}), now=1e9)
    assert (context.session_id, len(sessions)) == (0, 0)


@given(count=st.integers(1, 50))
def test_session_ids_are_positive_and_distinct(count: int) -> None:
    sessions = make_sessions(slots=100)
    ids = [open_session(sessions, request(wanted={("a", 0): 0})).session_id for _ in range(count)]
    assert len(set(ids)) == count
    assert all(0 < session_id < 2**31 for session_id in ids)


# What sessions may hold --------------------------------------------------------------------------


def many(count: int, topic: str = "a") -> dict[tuple[str, int], int]:
    return {(topic, partition): 0 for partition in range(count)}


def test_the_partitions_of_all_sessions_are_bounded() -> None:
    sessions = make_sessions(slots=2)
    most = 2 * PARTITIONS_PER_SLOT
    large = open_session(sessions, request(wanted=many(most - 10)))
    assert large.session_id, "one session may have what others do not need"
    refused = open_session(sessions, request(wanted=many(11)), now=1.0)
    assert (refused.session_id, refused.error, len(refused.partitions)) == (0, 0, 11)
    assert open_session(sessions, request(wanted=many(10)), now=1.0).session_id
    assert sessions.partitions == most


def test_a_session_alone_may_not_have_more_than_all() -> None:
    sessions = make_sessions(slots=1)
    assert not open_session(sessions, request(wanted=many(PARTITIONS_PER_SLOT + 1))).session_id
    assert open_session(sessions, request(wanted=many(PARTITIONS_PER_SLOT))).session_id


def test_a_session_that_grows_too_large_is_lost() -> None:
    sessions = make_sessions(slots=2)
    grown = open_session(sessions, request(wanted=many(PARTITIONS_PER_SLOT)))
    other = open_session(sessions, request(wanted=many(PARTITIONS_PER_SLOT)))
    assert not open_session(sessions, request(grown.session_id, 1, {("a", 1): 5})).error
    lost = open_session(sessions, request(grown.session_id, 2, {("b", 0): 0}))
    assert (lost.error, lost.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert lost.partitions == []
    assert sessions.partitions == PARTITIONS_PER_SLOT, "it made room for others"
    assert not open_session(sessions, request(other.session_id, 1, {("b", 0): 0})).error


def test_partitions_that_are_forgotten_make_room() -> None:
    sessions = make_sessions(slots=1)
    session_id = open_session(sessions, request(wanted=many(PARTITIONS_PER_SLOT))).session_id
    forgotten = [("a", 0), ("a", 1)]
    assert not open_session(sessions, request(session_id, 1, forgotten=forgotten)).error
    wanted = {("b", 0): 0, ("b", 1): 0}
    assert not open_session(sessions, request(session_id, 2, wanted)).error
    assert sessions.partitions == PARTITIONS_PER_SLOT


@pytest.mark.parametrize("end", ["final", "restart", "empty"])
def test_a_session_that_ends_leaves_nothing_behind(end: str) -> None:
    sessions = make_sessions(slots=2)
    session_id = open_session(sessions, request(wanted=many(20))).session_id
    if end == "final":
        open_session(sessions, request(session_id, FINAL))
    elif end == "restart":
        open_session(sessions, request(session_id, 0, many(7)))
    else:
        open_session(sessions, request(session_id, 1, forgotten=list(many(20))))
    assert sessions.partitions == (7 if end == "restart" else 0)


def test_sessions_idle_for_long_make_room_for_partitions() -> None:
    sessions = make_sessions(slots=3)
    for _ in range(2):
        open_session(sessions, request(wanted=many(PARTITIONS_PER_SLOT)))
    asked = request(wanted=many(2 * PARTITIONS_PER_SLOT))
    assert not open_session(sessions, asked, now=119.0).session_id
    assert open_session(sessions, asked, now=120.0).session_id
    assert (len(sessions), sessions.partitions) == (2, 3 * PARTITIONS_PER_SLOT)


def test_followers_are_never_refused_and_take_nothing_from_consumers() -> None:
    sessions = make_sessions(slots=1)
    consumer = open_session(sessions, request(wanted=many(PARTITIONS_PER_SLOT))).session_id
    assert consumer
    followers = [
        open_session(sessions, request(wanted=many(1000), replica_id=broker)).session_id
        for broker in (2, 3, 4)
    ]
    assert all(followers)
    assert sessions.partitions == PARTITIONS_PER_SLOT
    assert not open_session(sessions, request(consumer, 1)).error
    assert sessions.wait(MOST_WAITING, replica_id=2) is not None
    assert sessions.waiting == 0, "nor their places to wait"


def test_a_session_of_a_follower_that_has_gone_ends_with_the_next_one() -> None:
    sessions = make_sessions()
    gone = open_session(sessions, request(wanted=many(3), replica_id=2)).session_id
    open_session(sessions, request(wanted=many(3), replica_id=2), now=119.0)
    assert len(sessions) == 2
    open_session(sessions, request(wanted=many(3), replica_id=3), now=120.0)
    assert len(sessions) == 2
    assert open_session(sessions, request(gone, 1, replica_id=2)).error


def test_a_larger_session_takes_the_slot_of_a_small_one_that_has_lived_for_long() -> None:
    sessions = make_sessions(slots=2)
    small = open_session(sessions, request(wanted=many(3))).session_id
    large = open_session(sessions, request(wanted=many(9))).session_id
    for epoch in (1, 2):
        for session_id in (small, large):  # both are used
            assert not open_session(sessions, request(session_id, epoch), now=epoch * 60.0).error
    assert not open_session(sessions, request(wanted=many(4)), now=119.0).session_id
    assert not open_session(sessions, request(wanted=many(3)), now=121.0).session_id
    assert not open_session(sessions, request(wanted=many(4)), now=121.5).session_id, "just looked"
    assert open_session(sessions, request(wanted=many(4)), now=122.5).session_id
    gone = open_session(sessions, request(small, 3), now=123.0)
    assert gone.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not open_session(sessions, request(large, 3), now=123.0).error


def test_names_that_no_topic_can_have_are_not_kept() -> None:
    sessions = make_sessions()
    refused = open_session(sessions, request(wanted={("x" * 250, 0): 0}))
    assert (refused.session_id, refused.error, len(refused.partitions)) == (0, 0, 1)
    session_id = open_session(sessions, request(wanted={("x" * 249, 0): 0})).session_id
    assert session_id
    lost = open_session(sessions, request(session_id, 1, {("x" * 250, 0): 0}))
    assert lost.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.partitions == 0


def test_sessions_share_the_names_of_topics() -> None:
    sessions = make_sessions()
    names = [b"orders".decode() for _ in range(2)]
    assert names[0] is not names[1]
    first, second = (
        open_session(sessions, request(wanted={(name, 0): 0, (name, 1): 0})) for name in names
    )
    kept = {id(partition.key[0]) for c in (first, second) for partition in c.partitions}
    assert len(kept) == 1


def test_a_partition_of_a_session_takes_little_memory() -> None:
    sessions = make_sessions(slots=50)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        wanted = many(10_000)
        asked, wanted = request(wanted=wanted), {}
        context = open_session(sessions, asked)
        assert context.session_id
        del asked, context
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken / 10_000 < 400


def test_fetches_that_wait_are_bounded() -> None:
    sessions = make_sessions()
    large = sessions.wait(MOST_WAITING // 2)
    assert large is not None
    assert sessions.wait(LARGE_FETCH + 1) is None, "large ones have half of it"
    places = [sessions.wait(LARGE_FETCH) for _ in range(MOST_WAITING // 2 // LARGE_FETCH)]
    assert None not in places
    assert sessions.wait(1) is None
    large.end()
    large.end()
    assert sessions.wait(LARGE_FETCH + 1) is None
    again = sessions.wait(1)
    assert again is not None
    for place in (*places, again):
        assert place is not None
        place.end()
    assert sessions.waiting == 0


async def test_many_partitions_are_taken_over_in_turns() -> None:
    sessions = make_sessions(slots=100)
    wanted = {**many(3 * PARTITIONS_PER_TURN), ("b", 1): 7}
    context = await sessions.open_large(request(wanted=wanted), uses_topic_ids=False, now=0.0)
    assert {(p.key[0], p.key[2]): p.fetch_offset for p in context.partitions} == wanted
    sessions.start(context, uses_topic_ids=False, now=0.0)
    session_id = context.session_id
    changes = request(session_id, 1, {("c", 0): 3}, forgotten=list(many(2 * PARTITIONS_PER_TURN)))
    changing = asyncio.ensure_future(sessions.open_large(changes, uses_topic_ids=False, now=1.0))
    await asyncio.sleep(0)
    for epoch in (1, 2, -2):
        between = open_session(sessions, request(session_id, epoch), now=1.0)
        assert between.error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    changed = await changing
    assert len(changed.partitions) == sessions.partitions == PARTITIONS_PER_TURN + 2
    assert not open_session(sessions, request(session_id, 2), now=1.0).error


async def test_a_session_that_ends_while_it_is_changed_is_lost() -> None:
    sessions = make_sessions(slots=100)
    began = open_session(sessions, request(wanted=many(10)))
    changes = request(began.session_id, 1, many(3 * PARTITIONS_PER_TURN))
    changing = asyncio.ensure_future(sessions.open_large(changes, uses_topic_ids=False, now=1.0))
    await asyncio.sleep(0)
    open_session(sessions, request(began.session_id, FINAL))
    lost = await changing
    assert (lost.error, lost.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert sessions.partitions == 0


# Against a model ---------------------------------------------------------------------------------

TOPIC_PARTITIONS = st.tuples(st.sampled_from("abc"), st.integers(0, 2))


@dataclass
class ModelSession:
    """What a careful client believes about its session."""

    epoch: int
    wanted: dict[tuple[str, int], int]
    told: dict[tuple[str, int], int] = field(default_factory=dict)
    """High watermarks that the client has heard of."""


class SessionsAgreeWithClients(RuleBasedStateMachine):
    """Several clients; the partitions read and the ones left out are always those expected."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions = make_sessions(slots=3)
        self.clients: dict[int, ModelSession] = {}
        self.high_watermarks: dict[tuple[str, int], int] = {}

    def finish(self, context: FetchContext, model: ModelSession, *, full: bool) -> None:
        assert {(p.key[0], p.key[2]): p.fetch_offset for p in context.partitions} == (model.wanted)
        found = []
        for partition in context.partitions:
            mark = self.high_watermarks.get((str(partition.key[0]), partition.key[2]), 0)
            found.append((partition, FetchedPartition(partition.key[2], 0, mark, mark, 0)))
        sent = {(str(p.key[0]), p.key[2]): a.high_watermark for p, a in context.select(found)}
        expected = {
            key: self.high_watermarks.get(key, 0)
            for key in model.wanted
            if full or model.told.get(key) != self.high_watermarks.get(key, 0)
        }
        assert sent == expected
        model.told.update(sent)

    @rule(key=TOPIC_PARTITIONS, mark=st.integers(1, 5))
    def append(self, key: tuple[str, int], mark: int) -> None:
        self.high_watermarks[key] = mark

    @rule(wanted=st.dictionaries(TOPIC_PARTITIONS, st.integers(0, 9), min_size=1))
    def start(self, wanted: dict[tuple[str, int], int]) -> None:
        context = open_session(self.sessions, request(wanted=wanted))
        model = ModelSession(1, dict(wanted))
        self.finish(context, model, full=True)
        if len(self.clients) < 3:
            assert context.session_id
            self.clients[context.session_id] = model
        else:
            assert context.session_id == 0

    @precondition(lambda self: self.clients)
    @rule(
        data=st.data(),
        changed=st.dictionaries(TOPIC_PARTITIONS, st.integers(0, 9), max_size=3),
        forgotten=st.sets(TOPIC_PARTITIONS, max_size=3),
    )
    def step(
        self,
        data: st.DataObject,
        changed: dict[tuple[str, int], int],
        forgotten: set[tuple[str, int]],
    ) -> None:
        session_id = data.draw(st.sampled_from(sorted(self.clients)))
        model = self.clients[session_id]
        forgotten -= changed.keys()
        context = open_session(
            self.sessions, request(session_id, model.epoch, changed, sorted(forgotten))
        )
        assert context.error == 0
        model.wanted.update(changed)
        for key in forgotten:
            model.wanted.pop(key, None)
            model.told.pop(key, None)
        if not model.wanted:
            assert context.session_id == 0
            del self.clients[session_id]
        else:
            model.epoch += 1
            self.finish(context, model, full=False)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), offset=st.integers(1, 3))
    def step_out_of_turn(self, data: st.DataObject, offset: int) -> None:
        session_id = data.draw(st.sampled_from(sorted(self.clients)))
        wrong = self.clients[session_id].epoch + offset
        context = open_session(self.sessions, request(session_id, wrong, {("c", 2): 9}))
        assert context.error is ErrorCode.INVALID_FETCH_SESSION_EPOCH

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        session_id = data.draw(st.sampled_from(sorted(self.clients)))
        open_session(self.sessions, request(session_id, FINAL))
        del self.clients[session_id]
        assert len(self.sessions) == len(self.clients)

    @invariant()
    def partitions_are_counted(self) -> None:
        wanted = sum(len(model.wanted) for model in self.clients.values())
        assert self.sessions.partitions == wanted


TestSessionsAgreeWithClients = SessionsAgreeWithClients.TestCase
TestSessionsAgreeWithClients.settings = settings(max_examples=40, stateful_step_count=25)
