"""A model of the way from controllers to brokers: real outboxes and fences, and everything between
them made up: messages are lost, doubled and late, answers are lost, brokers restart or register
anew, and controllers are replaced without noticing.

A life is drawn from a seed. While it lasts no broker may obey a controller that was replaced, nor
delete a log of a topic that is not deleted; when it comes to rest, every broker must know what the
controller in charge knows. Brokers and outboxes can be made wrong on purpose (``Faults``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import msgspec

from moldau.controller import (
    BrokerUpdate,
    ControllerFence,
    LeaderAndIsr,
    MetadataUpdate,
    RemovedTopic,
    StopReplica,
)
from moldau.controller.image import ClusterImage
from moldau.controller.outbox import Outbox
from moldau.coordination.znodes import BrokerRegistration
from moldau.errors import ErrorCode, KafkaError

BROKERS = (1, 2, 3)
NAMES = ("a", "b")
REST_ROUNDS = 12


class BrokenPromiseError(AssertionError):
    """An invariant does not hold."""


DEPOSED_OBEYED = "a controller that was replaced is obeyed"
REPLICA_LOST = "a replica of a topic that exists is deleted"
NO_CONVERGENCE = "a broker does not know what the controller knows"


@dataclass(frozen=True)
class Faults:
    """What is wrong on purpose."""

    forgets_lost_updates: bool = False
    """An update that did not reach a broker is not told again."""
    ignores_topic_ids: bool = False
    """Replicas are stopped by name alone."""
    ignores_sequence: bool = False
    """Late and doubled updates are applied, and missing ones are not missed."""
    ignores_epochs: bool = False
    """Whoever says so is the controller."""


class ForgetfulOutbox(Outbox):
    def was_lost(self) -> None:
        self._under_way = None


class Log:
    """Of one replica, on the disk of a broker."""

    def __init__(self, topic_id: UUID) -> None:
        self.topic_id = topic_id


class ModelBroker:
    """What a broker makes of updates, as ``broker/link.py`` does it."""

    def __init__(self, broker_id: int, faults: Faults, is_deleted: Callable[[UUID], bool]) -> None:
        self.id = broker_id
        self._faults = faults
        self._is_deleted = is_deleted
        self.epoch = -1
        self.logs: dict[tuple[str, int], Log] = {}
        self.restart()

    def restart(self) -> None:
        """Nothing is left but what is on disk."""
        self._fence = ControllerFence(lambda: self.epoch)
        self._obeyed = 0
        self._named: set[str] = set()
        self.replicas: dict[tuple[str, int], LeaderAndIsr] = {}
        self.metadata: dict[str, dict[int, LeaderAndIsr]] = {}
        self.configs: dict[str, dict[str, str]] = {}

    def apply(self, update: BrokerUpdate) -> list[StopReplica]:
        """Returns what was deleted; raises KafkaError."""
        self._admit(update)
        if update.controller_epoch < self._obeyed:
            raise BrokenPromiseError(DEPOSED_OBEYED)
        self._obeyed = update.controller_epoch
        metadata = update.metadata
        if metadata.full:
            self._named = set()
        self._named |= {state.topic for state in metadata.partitions}
        for removed in metadata.removed_topics:
            self._remove(removed)
        self.configs |= update.topic_configs
        for stop in update.stop_replicas:
            self._stop(stop)
        for state in metadata.partitions:
            self._take_up(state)
        if metadata.full_ends:
            self._forget_all_but_named()
        if not self._faults.ignores_sequence:
            self._fence.end()
        return [stop for stop in update.stop_replicas if stop.delete]

    def _admit(self, update: BrokerUpdate) -> None:
        if self._faults.ignores_epochs:
            return
        self._fence.admit(update)
        if not self._faults.ignores_sequence:
            self._fence.begin(update)

    def _remove(self, removed: RemovedTopic) -> None:
        known = self.metadata.get(removed.name)
        if known is None or {state.topic_id for state in known.values()} == {removed.topic_id}:
            self.metadata.pop(removed.name, None)
            self.configs.pop(removed.name, None)

    def _stop(self, stop: StopReplica) -> None:
        key = (stop.topic, stop.partition)
        log = self.logs.get(key)
        is_meant = log is None or log.topic_id == stop.topic_id
        if is_meant or self._faults.ignores_topic_ids:
            self.replicas.pop(key, None)
            if stop.delete and log is not None:
                if not self._is_deleted(log.topic_id):
                    raise BrokenPromiseError(REPLICA_LOST)
                del self.logs[key]

    def _take_up(self, state: LeaderAndIsr) -> None:
        state = msgspec.structs.replace(state, is_new=False)
        of_topic = self.metadata.get(state.topic)
        if of_topic is None or any(one.topic_id != state.topic_id for one in of_topic.values()):
            of_topic = self.metadata[state.topic] = {}
        known = of_topic.get(state.partition)
        if known is None or known.partition_epoch <= state.partition_epoch:
            of_topic[state.partition] = state
        key = (state.topic, state.partition)
        if self.id in state.replicas:
            log = self.logs.get(key)
            if log is None or log.topic_id != state.topic_id:
                self.logs[key] = Log(state.topic_id)
            self.replicas[key] = of_topic[state.partition]

    def _forget_all_but_named(self) -> None:
        for name in [name for name in self.metadata if name not in self._named]:
            del self.metadata[name]
        self.configs = {name: own for name, own in self.configs.items() if name in self._named}
        for key, state in list(self.replicas.items()):
            if key[0] not in self._named or self.id not in state.replicas:
                del self.replicas[key]


@dataclass
class ModelTopic:
    topic_id: UUID
    partitions: dict[int, LeaderAndIsr]
    config: dict[str, str]


@dataclass
class Deletion:
    """Of a topic: who has not deleted which partition yet."""

    topic_id: UUID
    waiting: set[tuple[int, int]]
    leader_epochs: dict[int, int]


@dataclass
class ModelController:
    """One that won an election; it may have been replaced since."""

    epoch: int
    image: ClusterImage = field(default_factory=ClusterImage)
    outboxes: dict[int, Outbox] = field(default_factory=dict)
    under_way: dict[int, BrokerUpdate] = field(default_factory=dict)


class Life:
    def __init__(self, seed: int, faults: Faults | None = None) -> None:
        self.random = Random(seed)
        self.faults = faults or Faults()
        self.topics: dict[str, ModelTopic] = {}
        self.deletions: dict[str, Deletion] = {}
        self.deleted: set[UUID] = set()
        self._ids = 0
        self._zxid = 0
        self.brokers = {
            broker: ModelBroker(broker, self.faults, self.deleted.__contains__)
            for broker in BROKERS
        }
        self.registered: dict[int, BrokerRegistration] = {}
        self.controllers = [ModelController(1)]
        self.late: list[tuple[int, BrokerUpdate]] = []
        for broker in BROKERS:
            self._register(broker)

    @property
    def active(self) -> ModelController:
        return self.controllers[-1]

    # What happens

    def run(self, steps: int = 150, *, converges: bool = True) -> None:
        """Live so long, and come to rest; raises BrokenPromiseError."""
        happenings = [
            (self.carry, 8),
            (self.arrive_late, 2),
            (self.create, 2),
            (self.delete, 1),
            (self.elect, 2),
            (self.configure, 1),
            (self.crash, 1),
            (self.lose_session, 1),
            (self.replace_controller, 1),
        ]
        events = [event for event, weight in happenings for _ in range(weight)]
        for _ in range(steps):
            self.random.choice(events)()
        if converges:
            self.rest()
            self.check_convergence()

    def carry(self) -> None:
        """A courier does its work; what became of a message it learns, or not."""
        controller = self.random.choice(self.controllers)
        if not controller.outboxes:
            return
        broker = self.random.choice(sorted(controller.outboxes))
        outbox = controller.outboxes[broker]
        update = controller.under_way.pop(broker, None) or outbox.take(controller.image)
        if update is None:
            return
        chance = self.random.random()
        if chance < 0.1:
            controller.under_way[broker] = update  # later
        elif chance < 0.2:
            outbox.was_lost()
        elif chance < 0.3:
            self.late.append((broker, update))
            outbox.was_lost()
        else:
            if chance < 0.5:
                self.late.append((broker, update))
            self._arrive(controller, broker, update, answer_is_lost=chance > 0.9)

    def arrive_late(self) -> None:
        """A message that was given up, or was there before, comes in."""
        if self.late:
            broker, update = self.late.pop(self.random.randrange(len(self.late)))
            try:
                self.brokers[broker].apply(update)
            except KafkaError:
                return

    def create(self) -> None:
        name = self.random.choice(NAMES)
        if name in self.topics or name in self.deletions:
            return
        self._ids += 1
        topic_id = UUID(int=self._ids)
        replicas = tuple(self.random.sample(BROKERS, self.random.randint(1, 3)))
        states = {
            number: LeaderAndIsr(
                name,
                topic_id,
                number,
                replicas[0],
                0,
                replicas,
                replicas,
                0,
                self.active.epoch,
                is_new=True,
            )
            for number in range(self.random.randint(1, 2))
        }
        config = {"x": str(self.random.random())}
        self.topics[name] = ModelTopic(topic_id, states, config)
        self._send(*states.values(), topic_configs={name: config})

    def delete(self) -> None:
        name = self.random.choice(NAMES)
        topic = self.topics.pop(name, None)
        if topic is None:
            return
        self.deleted.add(topic.topic_id)
        states = topic.partitions.values()
        self.deletions[name] = Deletion(
            topic.topic_id,
            {(state.partition, broker) for state in states for broker in state.replicas},
            {state.partition: state.leader_epoch for state in states},
        )
        self._resume_deletions()

    def elect(self) -> None:
        if not self.topics:
            return
        topic = self.topics[self.random.choice(sorted(self.topics))]
        number = self.random.choice(sorted(topic.partitions))
        state = topic.partitions[number]
        state = topic.partitions[number] = msgspec.structs.replace(
            state,
            leader=self.random.choice(state.replicas),
            leader_epoch=state.leader_epoch + 1,
            partition_epoch=state.partition_epoch + 1,
            is_new=False,
        )
        self._send(state)

    def configure(self) -> None:
        if self.topics:
            name = self.random.choice(sorted(self.topics))
            config = {} if self.random.random() < 0.3 else {"x": str(self.random.random())}
            self.topics[name].config = config
            self._send(topic_configs={name: config})

    def crash(self) -> None:
        broker = self.random.choice(BROKERS)
        self.brokers[broker].restart()
        self._register(broker)

    def lose_session(self) -> None:
        """The broker lives on, and registers again."""
        self._register(self.random.choice(BROKERS))

    def replace_controller(self) -> None:
        """The one before does not know yet."""
        controller = ModelController(self.active.epoch + 1)
        self.controllers = [*self.controllers[-2:], controller]
        states = [state for topic in self.topics.values() for state in topic.partitions.values()]
        configs = {name: topic.config for name, topic in self.topics.items()}
        self._follow_registrations()
        self._send(*states, topic_configs=configs)
        self._resume_deletions()

    # How it happens

    def _register(self, broker: int) -> None:
        self._zxid += 1
        self.brokers[broker].epoch = self._zxid
        self.registered[broker] = BrokerRegistration(broker, (), epoch=self._zxid)
        self._follow_registrations()
        self._resume_deletions()

    def _follow_registrations(self) -> None:
        controller = self.active
        kind = ForgetfulOutbox if self.faults.forgets_lost_updates else Outbox
        for broker, registration in self.registered.items():
            known = controller.outboxes.get(broker)
            if known is None or known.broker.epoch != registration.epoch:
                outbox = kind(controller.epoch, controller.epoch, registration)
                controller.outboxes[broker] = outbox
                controller.under_way.pop(broker, None)

    def _resume_deletions(self) -> None:
        stops: dict[int, list[StopReplica]] = {}
        for name, deletion in self.deletions.items():
            for number, broker in sorted(deletion.waiting):
                epoch = deletion.leader_epochs[number]
                stop = StopReplica(name, deletion.topic_id, number, True, epoch)
                stops.setdefault(broker, []).append(stop)
        removed = [RemovedTopic(name, one.topic_id) for name, one in self.deletions.items()]
        if removed:
            self._send(removed=removed, stops=stops)

    def _send(
        self,
        *states: LeaderAndIsr,
        removed: list[RemovedTopic] | None = None,
        stops: dict[int, list[StopReplica]] | None = None,
        topic_configs: dict[str, dict[str, str]] | None = None,
    ) -> None:
        controller = self.active
        change = BrokerUpdate(
            controller.epoch,
            controller.epoch,
            -1,
            topic_configs=topic_configs or {},
            metadata=MetadataUpdate(partitions=states, removed_topics=removed or ()),
        )
        controller.image.apply(change)
        for broker, outbox in controller.outboxes.items():
            outbox.add(change, (stops or {}).get(broker, ()))

    def _arrive(
        self,
        controller: ModelController,
        broker: int,
        update: BrokerUpdate,
        *,
        answer_is_lost: bool = False,
    ) -> None:
        outbox = controller.outboxes[broker]
        try:
            deleted = self.brokers[broker].apply(update)
        except KafkaError as error:
            outbox.was_lost()
            if error.code is ErrorCode.STALE_CONTROLLER_EPOCH:
                if controller is self.active:
                    raise BrokenPromiseError("the controller in charge is refused") from error
                self.controllers.remove(controller)
            return
        if answer_is_lost:
            outbox.was_lost()
            return
        outbox.was_applied()
        if controller is self.active:  # another one finds its writes refused
            self._deleted(broker, deleted)

    def _deleted(self, broker: int, stops: list[StopReplica]) -> None:
        for stop in stops:
            deletion = self.deletions.get(stop.topic)
            if deletion is not None and deletion.topic_id == stop.topic_id:
                deletion.waiting.discard((stop.partition, broker))
                if not deletion.waiting:
                    del self.deletions[stop.topic]

    # Rest

    def rest(self) -> None:
        """Nothing happens any more, and messages arrive."""
        controller = self.active
        for _ in range(REST_ROUNDS):
            for broker, outbox in sorted(controller.outboxes.items()):
                update = controller.under_way.pop(broker, None) or outbox.take(controller.image)
                if update is not None:
                    self._arrive(controller, broker, update)

    def check_convergence(self) -> None:
        metadata = {
            name: {
                number: msgspec.structs.replace(state, is_new=False)
                for number, state in topic.partitions.items()
            }
            for name, topic in self.topics.items()
        }
        configs = {name: topic.config for name, topic in self.topics.items()}
        for broker in self.brokers.values():
            replicas = {
                (name, number): state
                for name, states in metadata.items()
                for number, state in states.items()
                if broker.id in state.replicas
            }
            logs = {key: log.topic_id for key, log in broker.logs.items()}
            if (
                broker.metadata != metadata
                or {name: own for name, own in broker.configs.items() if own}
                != {name: own for name, own in configs.items() if own}
                or broker.replicas != replicas
                or logs != {key: state.topic_id for key, state in replicas.items()}
            ):
                raise BrokenPromiseError(NO_CONVERGENCE)
        if self.deletions:
            raise BrokenPromiseError(NO_CONVERGENCE)
