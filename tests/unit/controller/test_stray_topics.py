"""What a store lacks, by what is in the log directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.memory_storage import MemoryStorage, open_store

from moldau.controller.adoption import FoundPartition, create_topic_nodes, write_batches
from moldau.controller.loading import load_stored
from moldau.controller.stray_topics import (
    ADOPT,
    AUTO,
    EPOCHS_AHEAD,
    POLICIES,
    PRODUCER_IDS_AHEAD,
    Comparison,
    FoundOnDisk,
    KeptConfig,
    Stored,
    StoredTopic,
    compare,
)
from moldau.controller.writes import PARTITIONS_PER_BATCH
from moldau.coordination import cluster, paths
from moldau.coordination.store import CoordinationStore, Create
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
    return compare(stored, on_disk, BROKER, **options)  # type: ignore[arg-type]


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
    after = await written(Stored({"b": known(number=8)}, has_lost=True), on_disk)
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
    after = await written(Stored(has_lost=True), on_disk)
    assert after.topics["a"].config == {"cleanup.policy": ""}
    (sentence,) = compared(Stored(has_lost=True), on_disk).news
    assert "moldau config alter topic a cleanup.policy=delete" in sentence


async def test_topics_that_always_have_the_same_settings_get_them() -> None:
    settings = {"a": {"cleanup.policy": "compact"}}
    after = await written(Stored(has_lost=True), FoundOnDisk(found("a", 0)), known_configs=settings)
    assert after.topics["a"].config == {"cleanup.policy": "compact"}


async def test_settings_that_were_left_without_their_topic_are_replaced() -> None:
    session = await store_with(Stored())
    await session.create(paths.topic_config("a"), b'{"version":1,"config":{"x":"y"}}')
    result = compared(await load_stored(session), FoundOnDisk(found("a", 0)), policy="adopt")
    await write_batches(session, result.batches)
    assert (await load_stored(session)).topics["a"].config == {"cleanup.policy": ""}


@pytest.mark.parametrize(
    ("stored", "policy"),
    [(Stored(), "auto"), (Stored(), "refuse"), (Stored(has_lost=True), "refuse")],
)
def test_without_a_loss_or_by_choice_a_topic_is_left_alone_and_its_name_reserved(
    stored: Stored, policy: str
) -> None:
    result = compared(stored, FoundOnDisk(found("a", 0, 1)), policy=policy)
    assert not result.adopted
    assert "a-0, a-1" in result.strays["a"]
    assert "stray.topics.policy=adopt" in result.strays["a"]
    assert result.left_alone.keys() == {("a", 0), ("a", 1)}
    assert result.news


@pytest.mark.parametrize(
    ("stored", "policy"),
    [(Stored(), "adopt"), (Stored(has_lost=True), "auto"), (Stored(is_new=True), "auto")],
)
def test_after_a_loss_or_by_choice_it_is_adopted(stored: Stored, policy: str) -> None:
    result = compared(stored, FoundOnDisk(found("a", 0, 1)), policy=policy)
    assert result.adopted == ["a"]
    assert not result.left_alone


def test_strays_are_no_sign_of_loss() -> None:
    """They lie there at every start: epochs and producer ids must not leap each time."""
    on_disk = FoundOnDisk([*found("a", 0), *found("b", 0, number=8)], next_producer_id=5)
    block = ProducerIdBlock(BROKER, 0, 999)
    assert not compared(Stored({"a": known()}, producer_ids=block), on_disk).batches


def check_left_alone(stored: Stored, on_disk: FoundOnDisk, *names: str) -> None:
    """Whatever anybody asks for."""
    for policy in POLICIES:
        for has_lost in (False, True):
            stored.has_lost = has_lost
            result = compared(stored, on_disk, policy=policy)
            assert not result.adopted
            assert result.strays.keys() == {*names}
            assert {name for name, _ in result.left_alone} == {*names}


def test_a_copied_directory_is_no_topic() -> None:
    copied = FoundOnDisk([*found("a", 0), *found("a-old", 0)])
    check_left_alone(Stored({"a": known()}), copied, "a-old")
    # Nobody knows which of them is the copy.
    check_left_alone(Stored(), copied, "a", "a-old")


def test_a_renamed_directory_is_no_topic() -> None:
    check_left_alone(Stored({"a": known()}), FoundOnDisk(found("b", 0)), "b")


@pytest.mark.parametrize(
    "partition",
    [
        FoundPartition("orders", 20_261_116, topic_id(7), 0),
        FoundPartition(".Trash", 1000, None, -1),
        FoundPartition("orders", 0, None, -1),
        FoundPartition("..", 0, topic_id(7), 0),
        FoundPartition("foo bar", 0, topic_id(7), 0),
        FoundPartition("x\ny", 0, topic_id(7), 0),
        FoundPartition("a" * 250, 0, topic_id(7), 0),
        FoundPartition("some.name", 0, topic_id(7), 0),
    ],
)
def test_anything_may_lie_in_a_log_directory(partition: FoundPartition) -> None:
    stored = Stored({"some_name": known(number=9)})
    check_left_alone(stored, FoundOnDisk([partition]), partition.topic)


def test_an_absurd_number_is_no_partition_of_a_topic_either() -> None:
    on_disk = FoundOnDisk(found("a", 0, 20_261_116))
    for policy in POLICIES:
        result = compared(Stored({"a": known()}, has_lost=True), on_disk, policy=policy)
        assert list(result.left_alone) == [("a", 20_261_116)]


def test_a_topic_that_grows_by_many_partitions_is_written_in_batches() -> None:
    result = compared(Stored({"a": known()}), FoundOnDisk(found("a", *range(5000))), policy="adopt")
    assert max(map(len, result.batches)) <= 2 * PARTITIONS_PER_BATCH


def test_a_store_that_loses_nothing_is_not_corrected() -> None:
    """The topic was deleted, made anew or moved away while this broker was not there."""
    stored = Stored({"a": known(number=9), "c": known(number=10)}, can_lose_changes=False)
    on_disk = FoundOnDisk(
        [*found("a", 0), *found("b", 0, number=8)],
        {"c": kept(number=10, version=5, retention_ms="1")},
        deleted={(topic_id(10), 0)},
        next_producer_id=1_000_000,
    )
    for policy in POLICIES:
        result = compared(stored, on_disk, policy=policy)
        assert result == Comparison(news=result.news, unknown=["b"])
        assert len(result.news) == 2


def test_what_cannot_be_opened_keeps_its_name() -> None:
    result = compared(Stored(), FoundOnDisk(unopened=[("a", 0)], complete=False))
    assert list(result.strays) == ["a"]


async def test_missing_partitions_are_added() -> None:
    after = await written(
        Stored({"a": known(1)}, has_lost=True), FoundOnDisk(found("a", 0, 2, epoch=3))
    )
    grown = after.topics["a"]
    assert list(grown.node.partitions) == [0, 1, 2]
    assert grown.node.topic_id == topic_id(7)
    assert grown.states[2][0].leader_epoch == 3 + EPOCHS_AHEAD


def test_without_a_loss_more_partitions_are_left_alone() -> None:
    result = compared(Stored({"a": known(1)}), FoundOnDisk(found("a", 0, 1)))
    assert list(result.left_alone) == [("a", 1)]
    assert not result.batches
    assert not result.strays, "the topic is there"


async def test_newer_settings_hold_and_older_ones_do_not() -> None:
    newer = FoundOnDisk(found("a", 0), {"a": kept(version=2, retention_ms="-1")})
    after = await written(Stored({"a": known(config={"retention.ms": "5"})}), newer)
    assert after.topics["a"].config == {"retention.ms": "-1"}
    older = FoundOnDisk(found("a", 0), {"a": kept(version=2, retention_ms="-1")})
    stored = Stored({"a": known(config={"retention.ms": "5"}, version=3)})
    assert compared(stored, older) == Comparison()


@pytest.mark.parametrize("topics", [{}, {"a": known(config={"retention.ms": "5"})}])
async def test_versions_of_settings_go_on_above_those_of_the_copies(
    topics: dict[str, StoredTopic],
) -> None:
    """Otherwise a copy in a directory that was offline would be the newest when it is back."""
    on_disk = FoundOnDisk(found("a", 0), {"a": kept(version=7, retention_ms="-1")})
    after = await written(Stored(topics, has_lost=True), on_disk)
    assert after.topics["a"].config == {"retention.ms": "-1"}
    assert after.topics["a"].config_version == 8


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
    stored = Stored({"a": known()}, deleting={"a"})
    assert compared(stored, FoundOnDisk(found("a", 0))) == Comparison()


def test_another_topic_of_the_name_of_one_that_is_being_deleted_stays() -> None:
    """The store has lost the end of the deletion, and that the topic was made anew."""
    stored = Stored({"a": known()}, deleting={"a", "b"}, has_lost=True)
    on_disk = FoundOnDisk([*found("a", 0, number=9), *found("b", 0, number=8)])
    for policy in POLICIES:
        result = compared(stored, on_disk, policy=policy)
        assert result.left_alone.keys() == {("a", 0), ("b", 0)}
        assert not result.adopted


def test_what_was_being_deleted_does_not_come_back_by_itself() -> None:
    """Nor is it renamed or deleted: it may have been moved to a directory that is not there now."""
    on_disk = FoundOnDisk(found("a", 1), deleted={(topic_id(7), 0)})
    result = compared(Stored(has_lost=True), on_disk)
    assert list(result.left_alone) == [("a", 1)]
    assert list(result.strays) == ["a"]
    assert not result.adopted
    assert compared(Stored(), on_disk, policy="adopt").adopted == ["a"]


def test_what_was_moved_between_directories_was_not_deleted() -> None:
    on_disk = FoundOnDisk(found("a", 0, 1), deleted={(topic_id(7), 0)})
    assert compared(Stored(has_lost=True), on_disk).adopted == ["a"]


async def test_a_deletion_that_the_store_has_lost_is_done_again() -> None:
    on_disk = FoundOnDisk(deleted={(topic_id(7), 0)})
    after = await written(Stored({"a": known(), "b": known(number=8)}, has_lost=True), on_disk)
    assert after.deleting == {"a"}


def test_without_all_directories_nothing_counts_as_deleted() -> None:
    on_disk = FoundOnDisk(deleted={(topic_id(7), 0)}, complete=False)
    assert not compared(Stored({"a": known()}, has_lost=True), on_disk).news


def test_without_a_loss_a_topic_without_directories_was_not_deleted() -> None:
    """It may have been moved to a disk that is not mounted now."""
    on_disk = FoundOnDisk(deleted={(topic_id(7), 0)})
    assert compared(Stored({"a": known()}), on_disk) == Comparison()


async def test_a_topic_made_anew_takes_the_place_of_the_one_that_the_store_remembers() -> None:
    on_disk = FoundOnDisk(found("a", 0, number=9), {"a": kept(number=9, retention_ms="4")})
    after = await written(Stored({"a": known(3)}, has_lost=True), on_disk)
    assert after.topics["a"].node.topic_id == topic_id(9)
    assert list(after.topics["a"].node.partitions) == [0]
    assert after.topics["a"].config == {"retention.ms": "4"}


@pytest.mark.parametrize(("has_lost", "policy"), [(False, "auto"), (True, "refuse")])
def test_while_nobody_knows_which_topic_counts_neither_is_touched(
    has_lost: bool, policy: str
) -> None:
    stored = Stored({"a": known(3)}, has_lost=has_lost)
    result = compared(stored, FoundOnDisk(found("a", 0, number=9)), policy=policy)
    assert list(result.left_alone) == [("a", 0)]
    assert not any(isinstance(op, Create) for batch in result.batches for op in batch)


def test_partitions_of_another_topic_among_those_of_a_known_one_are_left_alone() -> None:
    on_disk = FoundOnDisk([*found("a", 0), *found("a", 1, number=9)])
    assert list(compared(Stored({"a": known(2)}), on_disk).left_alone) == [("a", 1)]


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
    policy = data.draw(st.sampled_from([AUTO, ADOPT]))
    session = await store_with(Stored(left, has_lost=policy == AUTO))
    result = compared(await load_stored(session), on_disk, policy=policy)
    await write_batches(session, result.batches)
    after = await load_stored(session)
    assert told(after.topics, after.topics) == told(before.topics, before.topics)
    for name, topic in before.topics.items():
        for number, (state, _) in topic.states.items():
            assert after.topics[name].states[number][0].leader_epoch >= state.leader_epoch
    assert not compared(after, on_disk).news
