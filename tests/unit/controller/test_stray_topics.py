"""What a store lacks, by what is in the log directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.memory_storage import MemoryStorage, open_store

from moldau.controller.adoption import FoundPartition, create_topic_nodes, write_batches
from moldau.controller.loading import load_stored
from moldau.controller.stray_topics import (
    EPOCHS_AHEAD,
    PRODUCER_IDS_AHEAD,
    Comparison,
    FoundOnDisk,
    KeptConfig,
    Stored,
    StoredTopic,
    compare,
)
from moldau.coordination import cluster, paths
from moldau.coordination.store import CoordinationStore
from moldau.coordination.znodes import ProducerIdBlock, StateNode, TopicNode

BROKER = 1


def topic_id(number: int) -> UUID:
    return UUID(int=number)


def found(topic: str, *partitions: int, number: int = 7, epoch: int = 0) -> list[FoundPartition]:
    return [FoundPartition(topic, one, topic_id(number), epoch) for one in partitions]


def known(
    partitions: int = 1,
    number: int = 7,
    epoch: int = 0,
    config: Mapping[str, str] | None = None,
    version: int = 0,
) -> StoredTopic:
    node = TopicNode(dict.fromkeys(range(partitions), (BROKER,)), topic_id(number))
    states = {one: (StateNode(1, BROKER, epoch, (BROKER,)), 0) for one in range(partitions)}
    return StoredTopic(node, 0, states, dict(config or {}), version)


def kept(number: int = 7, version: int = 0, **config: str) -> KeptConfig:
    return KeptConfig(
        topic_id(number), version, {name.replace("_", "."): value for name, value in config.items()}
    )


def compared(stored: Stored, on_disk: FoundOnDisk, **options: object) -> Comparison:
    new_ids = map(topic_id, count(1000))
    return compare(stored, on_disk, BROKER, lambda: next(new_ids), **options)  # type: ignore[arg-type]


async def store_with(stored: Stored) -> CoordinationStore:
    """A store that holds this."""
    session = (await open_store(MemoryStorage())).session()
    await cluster.prepare(session)
    for name, topic in stored.topics.items():
        states = {number: state for number, (state, _) in topic.states.items()}
        await write_batches(session, create_topic_nodes(name, topic.node, topic.config, states))
    for name in stored.deleting:
        await session.create(paths.delete_topic(name))
    if stored.has_lost:
        await session.create(paths.SUSPECTED_LOSS)
    return session


async def written(stored: Stored, on_disk: FoundOnDisk, **options: object) -> Stored:
    """Returns the store after what the comparison says has been written to it."""
    session = await store_with(stored)
    result = compared(await load_stored(session), on_disk, **options)
    await write_batches(session, result.batches)
    return await load_stored(session)


def test_nothing_is_said_where_nothing_is_missing() -> None:
    result = compared(
        Stored({"a": known(2, config={"retention.ms": "5"})}),
        FoundOnDisk(found("a", 0, 1), {"a": kept(retention_ms="5")}),
    )
    assert result == Comparison()


async def test_a_missing_topic_is_adopted_with_its_id_partitions_epochs_and_settings() -> None:
    on_disk = FoundOnDisk(found("a", 0, 1, epoch=4), {"a": kept(cleanup_policy="compact")})
    after = await written(Stored({"b": known(number=8)}), on_disk)
    adopted = after.topics["a"]
    assert adopted.node.topic_id == topic_id(7)
    assert list(adopted.node.partitions) == [0, 1]
    assert adopted.states[1][0].leader_epoch == 4 + EPOCHS_AHEAD
    assert adopted.config == {"cleanup.policy": "compact"}
    assert after.topics["b"].states[0][0].leader_epoch == EPOCHS_AHEAD


@pytest.mark.parametrize("configs", [{}, {"a": kept(number=6, retention_ms="1")}])
async def test_a_topic_whose_settings_are_lost_keeps_everything(
    configs: dict[str, KeptConfig],
) -> None:
    on_disk = FoundOnDisk(found("a", 0), configs)
    after = await written(Stored(), on_disk)
    assert after.topics["a"].config == {"cleanup.policy": ""}
    (sentence,) = compared(Stored(), on_disk).news
    assert "moldau config alter topic a cleanup.policy=delete" in sentence


async def test_topics_that_always_have_the_same_settings_get_them() -> None:
    settings = {"a": {"cleanup.policy": "compact"}}
    after = await written(Stored(), FoundOnDisk(found("a", 0)), known_configs=settings)
    assert after.topics["a"].config == {"cleanup.policy": "compact"}


async def test_settings_that_were_left_without_their_topic_are_replaced() -> None:
    session = await store_with(Stored())
    await session.create(paths.topic_config("a"), b'{"version":1,"config":{"x":"y"}}')
    result = compared(await load_stored(session), FoundOnDisk(found("a", 0)))
    await write_batches(session, result.batches)
    assert (await load_stored(session)).topics["a"].config == {"cleanup.policy": ""}


def test_by_choice_a_missing_topic_is_left_alone_and_its_name_reserved() -> None:
    result = compared(Stored(), FoundOnDisk(found("a", 0, 1)), adopts=False)
    assert not result.adopted
    assert "a-0, a-1" in result.strays["a"]
    assert "stray.topics.policy=adopt" in result.strays["a"]
    assert result.news


def test_what_cannot_be_opened_keeps_its_name() -> None:
    result = compared(Stored(), FoundOnDisk(unopened=[("a", 0)], complete=False))
    assert list(result.strays) == ["a"]


async def test_a_topic_without_an_id_gets_one() -> None:
    after = await written(Stored(), FoundOnDisk([FoundPartition("a", 0, None, 3)]))
    assert after.topics["a"].node.topic_id == topic_id(1000)


async def test_missing_partitions_are_added() -> None:
    after = await written(Stored({"a": known(1)}), FoundOnDisk(found("a", 0, 2, epoch=3)))
    grown = after.topics["a"]
    assert list(grown.node.partitions) == [0, 1, 2]
    assert grown.node.topic_id == topic_id(7)
    assert grown.states[2][0].leader_epoch == 3 + EPOCHS_AHEAD


async def test_newer_settings_hold_and_older_ones_do_not() -> None:
    newer = FoundOnDisk(found("a", 0), {"a": kept(version=2, retention_ms="-1")})
    after = await written(Stored({"a": known(config={"retention.ms": "5"})}), newer)
    assert after.topics["a"].config == {"retention.ms": "-1"}
    older = FoundOnDisk(found("a", 0), {"a": kept(version=2, retention_ms="-1")})
    stored = Stored({"a": known(config={"retention.ms": "5"}, version=3)})
    assert compared(stored, older) == Comparison()


async def test_leader_epochs_never_go_back() -> None:
    stored = Stored({"a": known(2, epoch=5), "b": known(number=8, epoch=2)})
    on_disk = FoundOnDisk([*found("a", 0, epoch=9), *found("a", 1, epoch=5)])
    after = await written(stored, on_disk)
    assert after.topics["a"].states[0][0].leader_epoch == 9 + EPOCHS_AHEAD
    assert after.topics["a"].states[1][0].leader_epoch == 5 + EPOCHS_AHEAD
    assert after.topics["b"].states[0][0].leader_epoch == 2 + EPOCHS_AHEAD


async def test_a_store_that_may_lack_changes_skips_epochs_and_producer_ids_once() -> None:
    stored = Stored({"a": known(epoch=5)}, has_lost=True)
    on_disk = FoundOnDisk(found("a", 0, epoch=5), next_producer_id=40)
    after = await written(stored, on_disk)
    assert not after.has_lost
    assert after.topics["a"].states[0][0].leader_epoch == 5 + EPOCHS_AHEAD
    assert after.producer_ids is not None
    assert after.producer_ids.block_end == 40 + PRODUCER_IDS_AHEAD - 1
    assert compared(after, on_disk) == Comparison()


def test_producer_ids_go_on_above_those_in_the_logs() -> None:
    block = ProducerIdBlock(BROKER, 0, 999)
    stored = Stored({"a": known()}, producer_ids=block)
    assert not compared(stored, FoundOnDisk(found("a", 0), next_producer_id=1000)).batches
    assert compared(stored, FoundOnDisk(found("a", 0), next_producer_id=1001)).batches


# Deletion ----------------------------------------------------------------------------------------


def test_a_topic_that_is_being_deleted_is_left_to_that() -> None:
    stored = Stored({"a": known()}, deleting={"a", "b"})
    assert compared(stored, FoundOnDisk(found("a", 0) + found("b", 0, number=8))) == Comparison()


def test_what_was_being_deleted_does_not_come_back() -> None:
    on_disk = FoundOnDisk(found("a", 1), deleted={(topic_id(7), 0)})
    result = compared(Stored(), on_disk)
    assert result.set_aside == found("a", 1)
    assert not result.adopted
    assert not result.strays, "the name is free"


def test_what_was_moved_between_directories_was_not_deleted() -> None:
    on_disk = FoundOnDisk(found("a", 0, 1), deleted={(topic_id(7), 0)})
    assert compared(Stored(), on_disk).adopted == ["a"]


async def test_a_deletion_that_the_store_has_lost_is_done_again() -> None:
    on_disk = FoundOnDisk(deleted={(topic_id(7), 0)})
    after = await written(Stored({"a": known(), "b": known(number=8)}), on_disk)
    assert after.deleting == {"a"}


def test_without_all_directories_nothing_counts_as_deleted() -> None:
    on_disk = FoundOnDisk(deleted={(topic_id(7), 0)}, complete=False)
    assert compared(Stored({"a": known()}), on_disk) == Comparison()


async def test_a_topic_made_anew_takes_the_place_of_the_one_that_the_store_remembers() -> None:
    on_disk = FoundOnDisk(found("a", 0, number=9), {"a": kept(number=9, retention_ms="4")})
    after = await written(Stored({"a": known(3)}, has_lost=True), on_disk)
    assert after.topics["a"].node.topic_id == topic_id(9)
    assert list(after.topics["a"].node.partitions) == [0]
    assert after.topics["a"].config == {"retention.ms": "4"}


def test_without_a_sign_of_loss_the_store_knows_best() -> None:
    result = compared(Stored({"a": known(3)}), FoundOnDisk(found("a", 0, number=9)))
    assert result == Comparison()


# Any loss ----------------------------------------------------------------------------------------


@st.composite
def clusters(draw: st.DrawFn) -> Stored:
    topics = {}
    for number, name in enumerate(draw(st.sets(st.sampled_from("abcd")))):
        config = draw(st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from("12")))
        epoch = draw(st.integers(0, 9))
        topics[name] = known(draw(st.integers(1, 4)), number + 1, epoch, config, 0)
    return Stored(topics)


def directories(stored: Stored) -> FoundOnDisk:
    """What a broker with these topics has on its disk."""
    partitions = [
        FoundPartition(name, number, topic.node.topic_id, state.leader_epoch)
        for name, topic in stored.topics.items()
        for number, (state, _) in topic.states.items()
    ]
    configs = {
        name: KeptConfig(topic.node.topic_id or UUID(int=0), 9, topic.config)
        for name, topic in stored.topics.items()
    }
    return FoundOnDisk(partitions, configs)


def told(topics: Mapping[str, StoredTopic], names: Iterable[str]) -> dict[str, object]:
    return {name: (topics[name].node, topics[name].config) for name in sorted(names)}


@given(clusters(), st.data())
@settings(max_examples=60, deadline=None)
async def test_whatever_a_store_has_lost_comes_back(before: Stored, data: st.DataObject) -> None:
    """Topics, partitions and settings; and a second look finds nothing more."""
    left: dict[str, StoredTopic] = {}
    for name, topic in before.topics.items():
        fate = data.draw(st.sampled_from(["gone", "smaller", "older settings", "whole"]))
        if fate == "smaller":
            left[name] = known(1, topic.node.topic_id.int if topic.node.topic_id else 0)
        elif fate == "older settings":
            left[name] = topic._replace(config={"x": "0"}, states=dict(topic.states))
        elif fate == "whole":
            left[name] = topic._replace(states=dict(topic.states))
    on_disk = directories(before)
    session = await store_with(Stored(left, has_lost=data.draw(st.booleans())))
    result = compared(await load_stored(session), on_disk)
    await write_batches(session, result.batches)
    after = await load_stored(session)
    assert told(after.topics, after.topics) == told(before.topics, before.topics)
    for name, topic in before.topics.items():
        for number, (state, _) in topic.states.items():
            assert after.topics[name].states[number][0].leader_epoch >= state.leader_epoch
    assert not compared(after, on_disk).news
