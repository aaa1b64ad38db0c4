"""What waits for one broker: coalesced, in order, in messages of a bounded size, and everything
after a message whose fate nobody knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import pytest

from moldau.controller import BrokerUpdate, LeaderAndIsr, MetadataUpdate, RemovedTopic, StopReplica
from moldau.controller.image import ClusterImage
from moldau.controller.outbox import PARTITIONS_PER_UPDATE, Outbox
from moldau.coordination.znodes import BrokerRegistration, Endpoint
from moldau.quotas.entity import ClientQuota, ClientQuotaEntity

OLD, NEW = UUID(int=1), UUID(int=2)
HERE = BrokerRegistration(2, (Endpoint("PLAINTEXT", "host2", 9092),), None, epoch=20)


def state(
    topic: str, partition: int = 0, *, epoch: int = 0, topic_id: UUID = OLD, is_new: bool = False
) -> LeaderAndIsr:
    return LeaderAndIsr(
        topic, topic_id, partition, 1, epoch, (1, 2), (1, 2), epoch, 4, is_new=is_new
    )


def stop(topic: str, *, topic_id: UUID = OLD, delete: bool = True, epoch: int = 0) -> StopReplica:
    return StopReplica(topic, topic_id, 0, delete, epoch)


class Controller:
    """One outbox and the image that it falls back on."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.outbox = Outbox(1, 4, HERE)

    def send(
        self,
        *states: LeaderAndIsr,
        removed: Sequence[RemovedTopic] = (),
        stops: Sequence[StopReplica] = (),
        brokers: tuple[BrokerRegistration, ...] | None = None,
        **settings: Any,
    ) -> None:
        metadata = MetadataUpdate(brokers=brokers, partitions=states, removed_topics=removed)
        change = BrokerUpdate(1, 4, -1, metadata=metadata, **settings)
        self.image.apply(change)
        self.outbox.add(change, stops)

    def is_done(self) -> bool:
        return self.outbox.is_applied

    def take(self) -> BrokerUpdate:
        update = self.outbox.take(self.image)
        assert update is not None
        return update

    def deliver(self) -> BrokerUpdate:
        update = self.take()
        self.outbox.was_applied()
        return update

    def lose(self) -> BrokerUpdate:
        update = self.take()
        self.outbox.was_lost()
        return update


@pytest.fixture
def controller() -> Controller:
    """One whose broker knows everything."""
    controller = Controller()
    controller.deliver()
    return controller


def partitions(update: BrokerUpdate) -> list[tuple[str, int, int]]:
    return [(one.topic, one.partition, one.leader_epoch) for one in update.metadata.partitions]


def test_a_new_broker_is_told_everything_first() -> None:
    controller = Controller()
    controller.send(
        state("a", is_new=True),
        brokers=(HERE,),
        topic_configs={"a": {"x": "1"}},
        topic_config_versions={"a": 3},
        group_configs={"g": {"y": "2"}},
    )
    assert not controller.is_done()
    update = controller.take()
    assert (update.controller_id, update.controller_epoch) == (1, 4)
    assert (update.broker_epoch, update.sequence) == (20, 0)
    assert update.metadata.full
    assert update.metadata.full_ends
    assert update.metadata.brokers == (HERE,)
    assert partitions(update) == [("a", 0, 0)]
    assert not update.metadata.partitions[0].is_new, "it may have been there in an earlier life"
    assert update.topic_configs == {"a": {"x": "1"}}
    assert update.topic_config_versions == {"a": 3}
    assert update.group_configs == {"g": {"y": "2"}}
    assert controller.outbox.take(controller.image) is None, "one at a time"
    controller.outbox.was_applied()
    assert controller.is_done()
    assert controller.outbox.take(controller.image) is None


def test_an_empty_cluster_is_something_to_tell() -> None:
    update = Controller().deliver()
    assert update.metadata.full
    assert update.metadata.full_ends


def test_changes_are_told_as_they_are_and_counted(controller: Controller) -> None:
    controller.send(state("a", is_new=True), topic_configs={"a": {}})
    first = controller.deliver()
    assert (first.sequence, first.metadata.full, first.metadata.full_ends) == (1, False, False)
    assert first.metadata.partitions[0].is_new
    assert first.metadata.brokers is None
    controller.send(broker_configs={"": {"x": "1"}})
    second = controller.deliver()
    assert (second.sequence, second.broker_configs) == (2, {"": {"x": "1"}})
    assert second.metadata == MetadataUpdate(partitions=[], removed_topics=[])


def test_of_what_waits_only_the_last_word_counts(controller: Controller) -> None:
    controller.send(state("a"), state("b"))
    controller.take()
    entity = ClientQuotaEntity.of({"user": "u"})
    for epoch in (1, 2, 3):
        controller.send(
            state("a", epoch=epoch),
            topic_configs={"a": {"x": str(epoch)}},
            client_quotas=[ClientQuota(entity, {"producer_byte_rate": float(epoch)})],
        )
    controller.outbox.was_applied()
    update = controller.deliver()
    assert partitions(update) == [("a", 0, 3)]
    assert update.topic_configs == {"a": {"x": "3"}}
    assert update.client_quotas == [ClientQuota(entity, {"producer_byte_rate": 3.0})]
    assert controller.is_done()


def test_settings_that_were_taken_back_are_told_as_none(controller: Controller) -> None:
    controller.send(group_configs={"g": {"x": "1"}}, topic_configs={"a": {"x": "1"}})
    controller.deliver()
    controller.send(group_configs={"g": {}}, topic_configs={"a": {}})
    update = controller.deliver()
    assert (update.group_configs, update.topic_configs) == ({"g": {}}, {"a": {}})


def test_a_topic_that_goes_before_it_was_told_of_is_only_stopped(controller: Controller) -> None:
    controller.send(state("a", is_new=True), topic_configs={"a": {"x": "1"}})
    controller.send(removed=[RemovedTopic("a", OLD)], stops=[stop("a")])
    update = controller.deliver()
    assert partitions(update) == []
    assert update.topic_configs == {}
    assert update.stop_replicas == [stop("a")]
    assert update.metadata.removed_topics == [RemovedTopic("a", OLD)]


def test_a_topic_that_comes_back_is_told_together_with_the_end_of_its_namesake(
    controller: Controller,
) -> None:
    controller.send(state("a", epoch=5), topic_configs={"a": {"x": "old"}})
    controller.send(removed=[RemovedTopic("a", OLD)], stops=[stop("a")])
    controller.send(state("a", topic_id=NEW), topic_configs={"a": {"x": "new"}})
    update = controller.deliver()
    assert [one.topic_id for one in update.metadata.partitions] == [NEW]
    assert update.topic_configs == {"a": {"x": "new"}}
    assert update.stop_replicas == [stop("a")]
    assert update.metadata.removed_topics == [RemovedTopic("a", OLD)]


def test_the_end_of_an_old_topic_takes_nothing_of_its_namesake(controller: Controller) -> None:
    controller.send(state("a", topic_id=NEW), topic_configs={"a": {"x": "new"}})
    controller.send(removed=[RemovedTopic("a", OLD)])
    update = controller.lose()
    assert [one.topic_id for one in update.metadata.partitions] == [NEW]
    everything = controller.deliver()
    assert [one.topic_id for one in everything.metadata.partitions] == [NEW]
    assert everything.topic_configs == {"a": {"x": "new"}}


def test_of_two_orders_to_stop_the_stricter_counts(controller: Controller) -> None:
    controller.send(stops=[stop("a", delete=True, epoch=1)])
    controller.send(stops=[stop("a", delete=False, epoch=2)])
    assert controller.deliver().stop_replicas == [stop("a", delete=True, epoch=2)]


def test_after_a_lost_message_everything_is_told(controller: Controller) -> None:
    controller.send(state("a"), state("b"), topic_configs={"a": {"x": "1"}})
    controller.deliver()
    controller.send(state("a", epoch=1))
    controller.lose()
    assert not controller.is_done()
    controller.send(state("b", epoch=7))
    update = controller.deliver()
    assert update.sequence == 3, "numbers are not used twice"
    assert update.metadata.full
    assert partitions(update) == [("a", 0, 1), ("b", 0, 7)]
    assert update.topic_configs == {"a": {"x": "1"}, "b": {}}, "b may have had some"
    assert controller.is_done()


def test_what_a_broker_has_to_stop_is_told_until_it_is_done(controller: Controller) -> None:
    controller.send(removed=[RemovedTopic("a", OLD)], stops=[stop("a")])
    for _ in range(3):
        assert controller.lose().stop_replicas == [stop("a")]
    controller.send(removed=[RemovedTopic("b", NEW)], stops=[stop("b", topic_id=NEW)])
    update = controller.take()
    assert update.stop_replicas == [stop("a"), stop("b", topic_id=NEW)]
    assert controller.outbox.was_applied() == update.stop_replicas


def test_nothing_piles_up_for_a_broker_that_does_not_answer(controller: Controller) -> None:
    controller.send(state("a"))
    controller.lose()
    for epoch in range(100):
        controller.send(state("a", epoch=epoch), topic_configs={f"t{epoch}": {}})
    assert not controller.outbox._pending


def many(topics: int, per_topic: int) -> list[LeaderAndIsr]:
    return [
        state(f"t{topic}", number, topic_id=UUID(int=topic))
        for topic in range(topics)
        for number in range(per_topic)
    ]


def test_everything_comes_in_parts_of_whole_topics() -> None:
    controller = Controller()
    states = many(25, 100)
    controller.send(*states, topic_configs={f"t{topic}": {"x": "1"} for topic in range(25)})
    parts = []
    while (update := controller.outbox.take(controller.image)) is not None:
        assert not controller.is_done()
        controller.outbox.was_applied()
        parts.append(update)
    assert [len(part.metadata.partitions) for part in parts] == [1000, 1000, 500]
    assert [part.metadata.full for part in parts] == [True, False, False]
    assert [part.metadata.full_ends for part in parts] == [False, False, True]
    assert [part.sequence for part in parts] == [0, 1, 2]
    assert [one for part in parts for one in part.metadata.partitions] == states
    for part in parts:
        topics = {one.topic for one in part.metadata.partitions}
        assert part.topic_configs.keys() == topics, "settings come with the logs that they are for"
    assert controller.is_done()


def test_one_topic_is_never_told_in_parts() -> None:
    controller = Controller()
    controller.send(*many(1, 3 * PARTITIONS_PER_UPDATE))
    assert len(controller.deliver().metadata.partitions) == 3 * PARTITIONS_PER_UPDATE


def test_what_changes_between_parts_is_told_in_the_end(controller: Controller) -> None:
    controller.send(*many(20, 100))
    controller.lose()
    first = controller.deliver()
    assert (first.metadata.full, first.metadata.full_ends) == (True, False)
    controller.send(state("t0", 0, epoch=9, topic_id=UUID(int=0)))
    controller.send(removed=[RemovedTopic("t15", UUID(int=15))])
    second = controller.deliver()
    assert second.metadata.removed_topics == [RemovedTopic("t15", UUID(int=15))]
    told = partitions(second)
    assert not any(topic == "t15" for topic, _, _ in told)
    assert ("t0", 0, 9) in told
    assert second.metadata.full_ends


def test_a_part_that_is_lost_begins_everything_anew(controller: Controller) -> None:
    controller.send(*many(20, 100))
    controller.lose()
    controller.deliver()
    controller.lose()
    assert not controller.is_done()
    parts = [controller.deliver(), controller.deliver()]
    assert [part.metadata.full for part in parts] == [True, False]
    assert [part.metadata.full_ends for part in parts] == [False, True]
    assert sum(len(part.metadata.partitions) for part in parts) == 2000
    assert controller.is_done()


def test_replicas_are_stopped_before_any_others_are_taken_up(controller: Controller) -> None:
    """They may be those of earlier topics of the same names."""
    count = PARTITIONS_PER_UPDATE + 1
    stops = [StopReplica("a", OLD, number, True, 0) for number in range(count)]
    controller.send(removed=[RemovedTopic("a", OLD)], stops=stops)
    controller.send(state("a", topic_id=NEW))
    first, second = controller.deliver(), controller.deliver()
    assert [len(first.stop_replicas), len(second.stop_replicas)] == [PARTITIONS_PER_UPDATE, 1]
    assert partitions(first) == []
    assert partitions(second) == [("a", 0, 0)]


def test_a_change_that_changes_nothing_is_no_message(controller: Controller) -> None:
    controller.send()
    assert controller.outbox.take(controller.image) is None
    assert controller.is_done()


def test_an_update_goes_through_an_encoder_and_back() -> None:
    update = BrokerUpdate(
        1,
        4,
        20,
        7,
        topic_configs={"a": {"x": "1"}},
        topic_config_versions={"a": 3},
        broker_configs={"": {"x": "1"}},
        group_configs={"g": {}},
        client_metrics_configs={"m": {"metrics": "*"}},
        client_quotas=[ClientQuota(ClientQuotaEntity.of({"user": None}), {"request": 1.5})],
        stop_replicas=[stop("a")],
        metadata=MetadataUpdate(
            brokers=(HERE,),
            partitions=[state("a", is_new=True)],
            removed_topics=[RemovedTopic("b", NEW)],
            full=True,
            full_ends=True,
        ),
    )
    for coder in (msgspec.msgpack, msgspec.json):
        assert coder.decode(coder.encode(update), type=BrokerUpdate) == update
