"""One letter for each bad record, however often a batch is run: the end of the topic tells."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from moldau.client.listener.headers import Failure, Source, read_failure, write_failure
from moldau.model import TopicPartition
from moldau.spark import letters_tail
from moldau.spark.letters_tail import FIRST_SPAN, Tail, Writer, spans, target_partition
from moldau.spark.offsets import OffsetRange, plan

EVENTS = TopicPartition("events", 3)
ME = Writer("shop", "", EVENTS, "id-1")


def letter(offset: int, writer: Writer = ME, until: int = 10_000) -> Failure:
    source = Source(*writer.partition, offset, 7)
    return Failure(
        source, writer.group, 1, "E", "why", "", 9, writer.pipeline, writer.topic_id, until
    )


def look(topic: list[Failure], writer: Writer, batch_start: int) -> Tail:
    """As a task reads the end of its partition."""
    tail = Tail(writer, batch_start)
    for start, stop in spans(0, len(topic)):
        for one in topic[start:stop]:
            tail.take(one)
        if tail.is_known:
            break
    return tail


def test_a_letter_says_whose_it_is() -> None:
    failure = letter(5)
    assert read_failure(write_failure([("own", b"1")], failure)) == failure
    plain = failure._replace(pipeline="", topic_id="", read_until=0)
    assert read_failure(write_failure([], plain)) == plain


def test_the_end_is_read_in_growing_steps() -> None:
    assert list(spans(0, 0)) == []
    assert list(spans(7, 10)) == [(7, 10)]
    assert list(spans(100, 2000)) == [(1500, 2000), (500, 1500), (100, 500)]


def test_letters_of_others_do_not_count() -> None:
    others = [
        ME._replace(pipeline="other"),
        ME._replace(pipeline="", group="g"),
        ME._replace(topic_id="id-2"),
        ME._replace(partition=TopicPartition("events", 2)),
    ]
    topic = [letter(number, one) for number, one in enumerate(others)]
    assert look([*topic, letter(9)], ME, 0).offsets == {9}


def test_groups_tell_letters_apart_where_no_pipeline_does() -> None:
    """A backfill leaves the group of its pipeline alone, and its letters are the pipeline's."""
    topic = [letter(1, ME._replace(group="g")), letter(2, ME._replace(pipeline="", group="g"))]
    assert look(topic, ME, 0).offsets == {1}
    assert look(topic, ME._replace(pipeline=""), 0).offsets == set()
    assert look(topic, ME._replace(pipeline="", group="g"), 0).offsets == {2}


def test_reading_ends_at_an_earlier_batch() -> None:
    """Unless it began when others had read further: then there may be more before it."""
    earlier = [letter(offset, until=1600) for offset in range(1600)]
    topic = [*earlier, *(letter(offset, until=2000) for offset in range(1600, 2000))]
    assert len(look(topic, ME, 1600).offsets) == FIRST_SPAN
    assert len(look(topic, ME, 1599).offsets) == 2000


def test_letters_of_a_partition_stay_together() -> None:
    places = {target_partition(TopicPartition("t", number), 5) for number in range(100)}
    assert places == set(range(5))
    assert target_partition(EVENTS, 1) == 0


def test_tasks_know_where_their_batch_begins() -> None:
    parts = plan({EVENTS: 10}, {EVENTS: 30}, max_records=5)
    assert [one.start for one in parts] == [10, 15, 20, 25]
    assert {one.batch_start for one in parts} == {10}
    assert replace(parts[1], batch_start=0) == OffsetRange("events", 3, 15, 20)


def test_every_bad_record_has_one_letter_whatever_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches in tasks side by side, each killed after any letter; two pipelines share the topic,
    and sometimes one begins anew, with other batches.
    """
    rng = random.Random(1)
    monkeypatch.setattr(letters_tail, "FIRST_SPAN", 3)
    for _ in range(300):
        topic: list[Failure] = []
        bad = {me: sorted(rng.sample(range(200), 40)) for me in (ME, ME._replace(pipeline="x"))}
        at = dict.fromkeys(bad, 0)
        while any(position < 200 for position in at.values()):
            me = rng.choice([one for one in at if at[one] < 200])
            end = min(200, at[me] + rng.randrange(1, 60))
            cuts = sorted(rng.sample(range(at[me], end), min(2, end - at[me])))
            tasks = list(zip([at[me], *cuts], [*cuts, end], strict=True))
            rng.shuffle(tasks)
            dies = rng.random() < 0.5
            looked = {task: look(topic, me, at[me]) for task in tasks}
            for (begin, stop), tail in looked.items():
                mine = [o for o in bad[me] if begin <= o < stop and o not in tail.offsets]
                mine = mine[: rng.randrange(len(mine) + 1)] if dies else mine
                until = max(end, tail.read_until)
                topic += [letter(offset, me, until) for offset in mine]
            if not dies:
                at[me] = end
            elif rng.random() < 0.1:
                at[me] = 0
        for me, offsets in bad.items():
            found = [one.source.offset for one in topic if me.wrote(one)]
            assert sorted(found) == offsets
