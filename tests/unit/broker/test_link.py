"""The controller's word, obeyed: what the parts of a broker hear of an update, in which order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest
from tests.support.memory_broker import MemoryBroker
from tests.support.wire import WireClient, one_batch
from tests.unit.broker.harness import ELSEWHERE, HERE, TOPIC_ID, Link, led

from moldau.broker.group_coordinator import OFFSETS_TOPIC
from moldau.controller import (
    LeaderAndIsr,
    MetadataUpdate,
    RemovedTopic,
    ReplicaError,
    StopReplica,
)
from moldau.coordination.znodes import BrokerRegistration, Endpoint
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.outcome import Outcome


@pytest.fixture
def link(broker: MemoryBroker) -> Link:
    return Link(broker)


async def test_a_partition_is_served_and_described(broker: MemoryBroker, link: Link) -> None:
    assert await link.update(led(), led("t", 1, leader=ELSEWHERE)) == []
    assert broker.partition("t").is_leader
    assert not broker.partition("t", 1).is_leader
    topic = link.parts.metadata.topics["t"]
    assert {index: state.leader for index, state in topic.partitions.items()} == {0: 1, 1: 2}
    assert link.parts.metadata.controller_id == ELSEWHERE


async def test_settings_come_before_the_logs_that_they_are_for(
    broker: MemoryBroker, link: Link
) -> None:
    await link.update(led(), topic_configs={"t": {"retention.ms": "7"}})
    assert broker.partition("t").log.config.retention_ms == 7
    await link.update(topic_configs={"t": {"retention.ms": "8"}}, metadata=MetadataUpdate())
    assert broker.partition("t").log.config.retention_ms == 8
    await link.update(
        broker_configs={"": {"log.retention.ms": "9"}},
        topic_configs={"t": {}},
        metadata=MetadataUpdate(),
    )
    assert broker.partition("t").log.config.retention_ms == 9


async def test_a_stopped_replica_is_not_served_and_a_deleted_one_has_no_log(
    broker: MemoryBroker, link: Link
) -> None:
    await link.update(led(), led("t", 1))
    stops = [StopReplica("t", TOPIC_ID, 0, False, 0), StopReplica("t", TOPIC_ID, 1, True, 0)]
    await link.update(stop_replicas=stops, metadata=MetadataUpdate())
    for index in (0, 1):
        with pytest.raises(KafkaError) as caught:
            broker.partition("t", index)
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.disk.is_dir("/data/t-0")
    assert not broker.disk.is_dir("/data/t-1")


async def test_replicas_that_cannot_be_brought_up_are_reported(
    broker: MemoryBroker, link: Link
) -> None:
    link.parts.logs.fail_dir("/data", "on fire")
    errors = await link.update(led())
    assert errors == [ReplicaError("t", 0, ErrorCode.KAFKA_STORAGE_ERROR)]


async def test_a_controller_that_was_replaced_is_not_obeyed(link: Link) -> None:
    await link.update(led())
    with pytest.raises(KafkaError) as caught:
        await link.update(led("u"), controller_epoch=4)
    assert caught.value.code is ErrorCode.STALE_CONTROLLER_EPOCH
    assert list(link.parts.metadata.topics) == ["t"]


async def test_a_full_update_is_all_there_is(link: Link) -> None:
    registration = BrokerRegistration(HERE, (Endpoint("PLAINTEXT", "memory", 9092),), None)
    groups, metrics = {"g": {"share.session.timeout.ms": "45000"}}, {"m": {"metrics": "*"}}
    await link.update(led(), led("u"), group_configs=groups, client_metrics_configs=metrics)
    assert link.parts.configs.client_metrics == metrics
    states = (led("u"),)
    metadata = MetadataUpdate(brokers=(registration,), partitions=states, full=True, full_ends=True)
    await link.update(*states, metadata=metadata)
    assert list(link.parts.metadata.topics) == ["u"]
    assert list(link.parts.metadata.brokers) == [HERE]
    assert list(link.parts.configs.configured_groups) == []
    assert link.parts.configs.client_metrics == {}


async def test_groups_hear_of_topics_in_the_order_of_the_update(
    broker: MemoryBroker, link: Link, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await link.parts.groups.topic.create()
    await client.create_topic("before")
    heard: list[tuple[str, list[object]]] = []
    host = next(iter(link.parts.groups.hosts))

    def note(what: str) -> object:
        def on_change(topics: list[object], _now_ms: int) -> Outcome:
            heard.append((what, list(topics)))
            return Outcome()

        return on_change

    monkeypatch.setattr(host.shard, "on_topics_changed", note("changed"))
    monkeypatch.setattr(host.shard, "on_topics_removed", note("removed"))
    names = [f"topic-{number}" for number in (3, 1, 2, 9, 5)]
    await link.update(*(led(name, topic_id=UUID(int=n)) for n, name in enumerate(names, 50)))
    assert heard == [("changed", names)]
    heard.clear()
    again = led(names[0], topic_id=UUID(int=60))
    removed = [RemovedTopic(names[1], UUID(int=51))]
    await link.update(again, metadata=MetadataUpdate(partitions=(again,), removed_topics=removed))
    lost = [(names[0], UUID(int=50)), (names[1], UUID(int=51))]
    assert heard == [("removed", lost), ("changed", [names[0], names[1]])]
    heard.clear()
    await link.update(led(names[2], epoch=1, topic_id=UUID(int=52)))
    assert heard == [], "another leader is no other topic"


async def test_coordinators_follow_the_leaders_of_their_topic(
    broker: MemoryBroker, link: Link, client: WireClient
) -> None:
    groups = link.parts.groups
    states = [led(OFFSETS_TOPIC, index) for index in range(3)]
    await link.update(*states)
    assert [host.partition.topic_partition.partition for host in groups.hosts] == [0, 1, 2]
    await link.update(led(OFFSETS_TOPIC, 1, leader=ELSEWHERE, epoch=1))
    assert [host.partition.topic_partition.partition for host in groups.hosts] == [0, 2]
    stop = StopReplica(OFFSETS_TOPIC, TOPIC_ID, 0, False, 0)
    await link.update(stop_replicas=[stop], metadata=MetadataUpdate())
    assert [host.partition.topic_partition.partition for host in groups.hosts] == [2]


async def test_a_fetch_that_waits_hears_that_its_leader_moved(
    broker: MemoryBroker, link: Link, client: WireClient
) -> None:
    await link.update(led())
    assert (await client.produce("t", one_batch(b"v"), acks=1)).error_code == 0
    sent = client.send_fetch({"t": {0: 1}}, max_wait_ms=60_000)
    await broker.settle()
    await link.update(led(leader=ELSEWHERE, epoch=1))
    ((_, _, (partition,)),) = (await client.receive_fetch(sent)).topics
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# One after the other


class SlowReplicas:
    """Replicas are taken up when a test says so, or not at all."""

    def __init__(self, link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[list[str]] = []
        self.gate = asyncio.Event()
        self.failure: Exception | None = None
        self._apply = link.parts.replicas.apply
        monkeypatch.setattr(link.parts.replicas, "apply", self.apply)

    async def apply(self, states: Sequence[LeaderAndIsr]) -> list[TopicPartition]:
        self.asked.append([state.topic for state in states])
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return await self._apply(states)


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def code_of(task: asyncio.Task[list[ReplicaError]]) -> ErrorCode | None:
    error = task.exception()
    return error.code if isinstance(error, KafkaError) else None


async def test_updates_are_applied_one_at_a_time(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    await link.everything()
    slow = SlowReplicas(link, monkeypatch)
    sent = [asyncio.create_task(link.update(led(name))) for name in ("t", "u")]
    await turns()
    assert slow.asked == [["t"]]
    assert list(link.parts.metadata.topics) == []
    slow.gate.set()
    await asyncio.gather(*sent)
    assert slow.asked == [["t"], ["u"]]
    assert list(link.parts.metadata.topics) == ["t", "u"]


async def test_an_update_is_given_up_when_a_later_controllers_comes(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    await link.everything()
    slow = SlowReplicas(link, monkeypatch)
    earlier = asyncio.create_task(link.update(led("t", epoch=3)))
    await turns()
    later = asyncio.create_task(link.everything(led("t", epoch=4), controller_epoch=6))
    await turns()
    slow.gate.set()
    await asyncio.wait([earlier, later])
    assert code_of(earlier) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert later.result() == []
    assert link.parts.metadata.topics["t"].partitions[0].leader_epoch == 4
    with pytest.raises(KafkaError):
        await link.update(led("t", epoch=5))


async def test_an_update_is_given_up_when_the_broker_begins_another_life(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    await link.everything()
    slow = SlowReplicas(link, monkeypatch)
    earlier = asyncio.create_task(link.update(led()))
    await turns()
    link.life += 1
    slow.gate.set()
    await asyncio.wait([earlier])
    assert code_of(earlier) is ErrorCode.STALE_BROKER_EPOCH
    assert list(link.parts.metadata.topics) == []


async def test_an_update_that_has_begun_is_finished_though_nobody_waits_for_it(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    await link.everything()
    slow = SlowReplicas(link, monkeypatch)
    sent = asyncio.create_task(link.update(led()))
    await turns()
    sent.cancel()
    await asyncio.wait([sent])
    closing = asyncio.create_task(link.link.close())
    await turns()
    assert not closing.done()
    slow.gate.set()
    await closing
    assert list(link.parts.metadata.topics) == ["t"]


# What is missing, late or failed


async def test_after_a_gap_only_everything_is_obeyed(link: Link) -> None:
    await link.update(led())
    link.sequence += 1
    with pytest.raises(KafkaError) as caught:
        await link.update(led("u"))
    assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert list(link.parts.metadata.topics) == ["t"]
    await link.everything(led(), led("u"))
    await link.update(led("v"))
    assert list(link.parts.metadata.topics) == ["t", "u", "v"]


async def test_an_update_that_comes_twice_is_applied_once(link: Link) -> None:
    await link.update(led(leader=ELSEWHERE, epoch=1))
    link.sequence -= 1
    with pytest.raises(KafkaError) as caught:
        await link.update(led(leader=HERE, epoch=1))
    assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert link.parts.metadata.topics["t"].partitions[0].leader == ELSEWHERE


@pytest.mark.parametrize("life", [-1, 1])
async def test_a_message_for_another_life_is_not_obeyed(link: Link, life: int) -> None:
    await link.everything()
    with pytest.raises(KafkaError) as caught:
        await link.everything(led(), broker_epoch=link.life + life)
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH
    assert list(link.parts.metadata.topics) == []


async def test_an_update_that_fails_half_way_is_healed_by_everything(
    broker: MemoryBroker, link: Link, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await link.parts.groups.topic.create()
    await link.update(led(), led("gone", topic_id=UUID(int=50)))
    offsets = [
        state for state in link.everything_known().partitions if state.topic == OFFSETS_TOPIC
    ]
    heard: list[object] = []
    host = next(iter(link.parts.groups.hosts))

    def on_removed(topics: list[object], _now_ms: int) -> Outcome:
        heard.extend(topics)
        return Outcome()

    monkeypatch.setattr(host.shard, "on_topics_removed", on_removed)
    slow = SlowReplicas(link, monkeypatch)
    slow.gate.set()
    slow.failure = RuntimeError("for this test")
    removed = [RemovedTopic("gone", UUID(int=50))]
    with pytest.raises(RuntimeError):
        await link.update(metadata=MetadataUpdate(partitions=[led("u")], removed_topics=removed))
    assert heard == []
    slow.failure = None
    with pytest.raises(KafkaError) as caught:
        await link.update(led("u"))
    assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION
    await link.everything(led(), led("u"), *offsets)
    assert sorted(link.parts.metadata.topics) == [OFFSETS_TOPIC, "t", "u"]
    assert heard == [("gone", UUID(int=50))], "groups do not miss what happened before the failure"


async def test_older_states_are_not_believed(broker: MemoryBroker, link: Link) -> None:
    await link.update(led(epoch=3))
    await link.update(led(leader=ELSEWHERE, epoch=2))
    assert broker.partition("t").is_leader
    assert link.parts.metadata.topics["t"].partitions[0].leader == HERE


# Stopping and deleting


async def test_an_order_to_delete_takes_no_later_topic_of_the_same_name(
    broker: MemoryBroker, link: Link
) -> None:
    later = UUID(int=41)
    await link.update(led(topic_id=later), topic_configs={"t": {"retention.ms": "7"}})
    errors = await link.update(
        stop_replicas=[StopReplica("t", TOPIC_ID, 0, True, 9)],
        metadata=MetadataUpdate(removed_topics=[RemovedTopic("t", TOPIC_ID)]),
    )
    assert errors == [], "what it is about is gone"
    assert broker.partition("t").topic_id == later
    assert broker.partition("t").log.config.retention_ms == 7
    assert link.parts.metadata.topics["t"].topic_id == later
    assert link.parts.configs.topic_overrides("t") == {"retention.ms": "7"}
    assert broker.disk.is_dir("/data/t-0")


async def test_a_log_that_is_not_served_is_deleted_by_its_topic_id_only(
    broker: MemoryBroker, link: Link
) -> None:
    await link.update(led())
    stop = StopReplica("t", TOPIC_ID, 0, False, 0)
    await link.update(stop_replicas=[stop], metadata=MetadataUpdate())
    other = StopReplica("t", UUID(int=41), 0, True, 0)
    assert await link.update(stop_replicas=[other], metadata=MetadataUpdate()) == []
    assert broker.disk.is_dir("/data/t-0")
    ours = StopReplica("t", TOPIC_ID, 0, True, 0)
    assert await link.update(stop_replicas=[ours], metadata=MetadataUpdate()) == []
    assert not broker.disk.is_dir("/data/t-0")


async def test_an_order_from_before_the_present_leadership_is_refused(
    broker: MemoryBroker, link: Link
) -> None:
    await link.update(led(epoch=3))
    stop = StopReplica("t", TOPIC_ID, 0, True, 2)
    errors = await link.update(stop_replicas=[stop], metadata=MetadataUpdate())
    assert errors == [ReplicaError("t", 0, ErrorCode.FENCED_LEADER_EPOCH)]
    assert broker.partition("t").is_leader


async def test_one_message_deletes_a_topic_and_makes_its_namesake(
    broker: MemoryBroker, link: Link
) -> None:
    later = UUID(int=41)
    await link.update(led(epoch=5), topic_configs={"t": {"retention.ms": "7"}})
    state = led(topic_id=later)
    await link.update(
        stop_replicas=[StopReplica("t", TOPIC_ID, 0, True, 5)],
        topic_configs={"t": {"retention.ms": "8"}},
        metadata=MetadataUpdate(partitions=[state], removed_topics=[RemovedTopic("t", TOPIC_ID)]),
    )
    assert broker.partition("t").topic_id == later
    assert broker.partition("t").log.config.retention_ms == 8
    assert link.parts.metadata.topics["t"].partitions[0].leader_epoch == 0


async def test_what_everything_does_not_name_is_stopped_and_kept(
    broker: MemoryBroker, link: Link
) -> None:
    elsewhere = LeaderAndIsr("moved", TOPIC_ID, 0, 2, 1, (2, 3), (2, 3), 1, 5)
    await link.update(led(), led("moved"), led("gone"), topic_configs={"gone": {"x": "1"}})
    await link.everything(led(), elsewhere)
    assert sorted(link.parts.replicas.topics) == ["t"]
    assert sorted(link.parts.metadata.topics) == ["moved", "t"]
    assert link.parts.configs.topic_overrides("gone") == {}
    assert broker.disk.is_dir("/data/moved-0")
    assert broker.disk.is_dir("/data/gone-0")


async def test_coordinators_leave_what_everything_does_not_name(link: Link) -> None:
    await link.update(led(OFFSETS_TOPIC), led(OFFSETS_TOPIC, 1))
    assert len(list(link.parts.groups.hosts)) == 2
    await link.everything(led())
    assert list(link.parts.groups.hosts) == []


async def test_everything_may_come_in_parts(broker: MemoryBroker, link: Link) -> None:
    await link.update(led("a"), led("b"), led("gone"))
    await link.send(metadata=MetadataUpdate(partitions=[led("b", epoch=1)], full=True))
    assert sorted(link.parts.metadata.topics) == ["a", "b", "gone"], "more may come"
    await link.send(metadata=MetadataUpdate(partitions=[led("c")]))
    last = MetadataUpdate(partitions=[led("a", epoch=1)], full_ends=True)
    await link.send(metadata=last)
    assert sorted(link.parts.metadata.topics) == ["a", "b", "c"]
    assert sorted(link.parts.replicas.topics) == ["a", "b", "c"]


async def test_what_is_not_known_may_exist_while_everything_is_told_again(link: Link) -> None:
    is_complete: list[bool] = []
    await link.everything(led("a"))
    is_complete.append(link.parts.metadata.is_complete)
    await link.send(metadata=MetadataUpdate(partitions=[led("a", epoch=1)], full=True))
    is_complete.append(link.parts.metadata.is_complete)
    await link.send(metadata=MetadataUpdate(partitions=[led("b")], full_ends=True))
    is_complete.append(link.parts.metadata.is_complete)
    assert is_complete == [True, False, True], "a topic that was never heard of may come"


async def test_everything_has_all_settings(link: Link) -> None:
    await link.update(
        broker_configs={"": {"log.retention.ms": "9"}, "1": {"message.max.bytes": "77"}}
    )
    assert link.parts.configs.broker.topic_defaults.retention_ms == 9
    await link.everything(broker_configs={"1": {"message.max.bytes": "78"}})
    broker = link.parts.configs.broker
    assert broker.cluster_dynamic == {}
    assert broker.broker_dynamic == {"message.max.bytes": "78"}


async def test_clients_may_come_once_everything_was_applied(link: Link) -> None:
    assert not link.link.complete.is_set()
    await link.send(metadata=MetadataUpdate(full=True))
    assert not link.link.complete.is_set()
    await link.send(metadata=MetadataUpdate(full_ends=True))
    assert link.link.complete.is_set()


async def test_many_replicas_are_taken_up_some_at_a_time(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowReplicas(link, monkeypatch)
    slow.gate.set()
    await link.everything(*(led("t", number) for number in range(1200)))
    assert [len(topics) for topics in slow.asked] == [500, 500, 200]
