"""The controller in charge: its duties, one at a time, each a read of the context, a decision by
pure functions, a fenced write to the store, and a message to the brokers.

An object of this class lives from winning the election to losing it. Every write carries a check of
the controller epoch's version, so a controller that was deposed without noticing changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from random import Random
from uuid import UUID

from moldau.controller import alter_partition, writes
from moldau.controller.context import ControllerContext, Topic
from moldau.controller.courier import Answer, SenderPorts
from moldau.controller.create_topics import initial_states
from moldau.controller.elections import (
    Circumstances,
    elect_for_shutdown,
    renewed,
    revise,
    without_eligible,
)
from moldau.controller.link import LeaderAndIsr
from moldau.controller.loading import load_brokers, load_context, read_states
from moldau.controller.mutation_quota import MutationQuota
from moldau.controller.requests import (
    AlterPartition,
    AlterPartitionResult,
    Mutator,
    ProducerIdBlock,
)
from moldau.controller.sender import Sender
from moldau.controller.settings import ControllerSettings
from moldau.controller.states import PartitionState, ReplicaState
from moldau.coordination import paths, znodes
from moldau.coordination.errors import BadVersionError, NodeExistsError, StoreUnavailableError
from moldau.coordination.store import CoordinationStore, Op, OpResult, SetData, Watch
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.quotas.entity import ClientQuota
from moldau.quotas.manager import ClientQuotaManager
from moldau.quotas.meters import TokenBucket
from moldau.quotas.validation import CONTROLLER_MUTATION_RATE

logger = logging.getLogger(__name__)

EVERY_BROKER = ""
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"
MIN_INSYNC_REPLICAS = "min.insync.replicas"
PRODUCER_ID_BLOCK_SIZE = 1000
_ELECTION_ATTEMPTS = 3
_MAX_PRODUCER_ID = 2**63 - 1


class ControllerMovedError(Exception):
    """Another controller has been elected."""


class ActiveController:
    def __init__(
        self,
        controller_id: int,
        store: CoordinationStore,
        ports: SenderPorts,
        settings: ControllerSettings,
        random: Random,
        new_topic_id: Callable[[], UUID],
        context: ControllerContext,
        steady_ms: Callable[[], int],
    ) -> None:
        self.context = context
        self.controller_id = controller_id
        self.store = store
        self.settings = settings
        self.random = random
        self.new_topic_id = new_topic_id
        self.sender = Sender(controller_id, context, ports)
        self.unconfirmed: set[str] = set()
        """Topics that are being made: who asked for them deals with what fails of them."""
        self.is_completing = False
        """Whether ``complete_creations`` is due."""
        self._steady_ms = steady_ms
        self._mutations = ClientQuotaManager(
            CONTROLLER_MUTATION_RATE, TokenBucket, settings.mutation_window
        )
        self._changed: dict[tuple[str, int], LeaderAndIsr] = {}

    # Quotas

    def client_quotas_changed(self, changed: Iterable[ClientQuota]) -> None:
        for change in changed:
            self._mutations.update(change.entity, change.quotas)

    def mutation_quota(self, mutator: Mutator | None) -> MutationQuota:
        """Returns what a request of this client draws on."""
        return MutationQuota(self._mutations, mutator, self._steady_ms)

    # Taking over

    async def take_over(self, watch_brokers: Watch, watch_deletions: Watch) -> None:
        """Load everything, give every partition a leader that can have one, tell all brokers."""
        context = self.context
        without_id = await load_context(
            self.store, context, self.new_topic_id, watch_brokers, watch_deletions
        )
        await self._write_ids([context.topics[name] for name in without_id])
        self.client_quotas_changed(
            ClientQuota(entity, quotas) for entity, quotas in context.client_quotas.items()
        )
        context.start_states()
        await self.initialise_new_partitions()
        await self.revise(list(context.partitions()))
        logger.info(
            "Controller %d took over with epoch %d: %d brokers, %d topics, %d partitions",
            self.controller_id,
            context.epoch,
            len(context.brokers),
            len(context.topics),
            len(context.partition_states),
        )
        self.take_changed()
        self.sender.start()

    async def _write_ids(self, topics: Sequence[Topic]) -> None:
        """Before brokers hear of them: logs remember the id of their topic, and the next controller
        must not name another.
        """
        batches: list[list[Op]] = [
            [writes.fence(self.context), writes.update_topic(topic)] for topic in topics
        ]
        self.raise_errors(await self.write(batches))
        for topic in topics:
            topic.version += 1

    def _leaderless(self, topic: str | None = None) -> list[LeaderAndIsr]:
        context = self.context
        return [
            state
            for state in context.partitions()
            if topic in (None, state.topic)
            and not context.is_online(state.leader, state.topic, state.partition)
        ]

    def allows_unclean_election(self, topic: str | None = None) -> bool:
        """Returns whether a topic (without one: by default) prefers being available to being
        complete: by its own setting, else by what was set at run time for this broker or for all,
        else by this broker's file.
        """
        context = self.context
        nothing: dict[str, str] = {}
        for overrides in (
            nothing if topic is None else context.topic_configs.get(topic, nothing),
            context.broker_configs.get(str(self.controller_id), nothing),
            context.broker_configs.get(EVERY_BROKER, nothing),
        ):
            value = overrides.get(UNCLEAN_LEADER_ELECTION)
            if value is not None:
                return value.strip().lower() == "true"
        return self.settings.unclean_leader_election_enable

    async def revive(self, topic: str | None = None) -> None:
        """A topic, or the default of all, now accepts unclean leaders: partitions without a leader
        get one.
        """
        await self.revise(self._leaderless(topic))
        self.sender.send(self.take_changed())

    # Brokers

    async def brokers_changed(self, watch: Watch) -> None:
        """Brokers came, went, or went and came back before anybody looked."""
        context = self.context
        before = context.brokers
        context.brokers = now = await load_brokers(self.store, watch)
        came = [broker for broker in now if broker not in before]
        gone = [broker for broker in before if broker not in now]
        restarted = [
            broker
            for broker in now
            if broker in before and now[broker].epoch != before[broker].epoch
        ]
        if not (came or gone or restarted):
            return
        logger.info("Brokers came: %s, went: %s, restarted: %s", came, gone, restarted)
        for broker in (*gone, *restarted):
            context.offline_dirs.pop(broker, None)
            context.shutting_down.discard(broker)
        changed = {*came, *gone, *restarted}
        # A disk that failed is another one, or well again, in the next life of its broker.
        self._put_offline(context.partitions())
        try:
            self._move_replicas(gone, ReplicaState.OFFLINE)
            self._move_replicas(came, ReplicaState.ONLINE)
            await self.initialise_new_partitions()
            await self.revise(
                [state for state in context.partitions() if not changed.isdisjoint(state.replicas)]
            )
        except Exception:
            # What could not be written is due again.
            context.brokers = before
            raise
        self.sender.send(self.take_changed(), brokers=True)

    def _move_replicas(self, brokers: Collection[int], target: ReplicaState) -> None:
        context = self.context
        context.replica_states.move(
            [
                (topic.name, number, replica)
                for topic in context.topics.values()
                if topic.name not in context.deleting
                for number, replicas in topic.assignment.items()
                for replica in replicas
                if replica in brokers
            ],
            target,
        )

    async def replicas_failed(self, answer: Answer) -> None:
        """Take replicas offline that a live broker could not bring up."""
        broker = answer.broker
        registration = self.context.brokers.get(broker.id)
        if registration is None or registration.epoch != broker.epoch:
            return
        stopped = {(stop.topic, stop.partition) for stop in answer.stops}
        failed = [
            replica
            for replica, error in answer.errors.items()
            if error is ErrorCode.KAFKA_STORAGE_ERROR
            and replica not in stopped
            and replica[0] not in self.unconfirmed
        ]
        await self.replicas_lost_disk(broker.id, failed)

    async def replicas_lost_disk(self, broker: int, replicas: Iterable[tuple[str, int]]) -> None:
        """A live broker cannot serve these replicas, and may have said so before."""
        replicas = list(replicas)
        known = self.context.offline_dirs.get(broker, ())
        new = sum(replica not in known for replica in replicas)
        if new:
            logger.warning("Broker %d cannot serve %d replicas", broker, new)
        if replicas:
            # Those it has named before, too: the store may have refused what follows from it.
            await self._take_offline(broker, replicas)

    async def offline_replicas(
        self, broker: int, broker_epoch: int, partitions: Collection[tuple[str, int]]
    ) -> None:
        """A broker lost the disk under these replicas.

        What it lost in an earlier life it may have again: the word of that life may come late.
        """
        brokers = self.context.brokers
        error = alter_partition.check_broker_epoch(brokers, broker, broker_epoch)
        if error is not ErrorCode.NONE:
            raise KafkaError(error)
        await self._take_offline(broker, partitions)

    async def _take_offline(self, broker: int, partitions: Collection[tuple[str, int]]) -> None:
        """Others lead, or nobody does. What is so already is not told again."""
        context = self.context
        context.offline_dirs.setdefault(broker, set()).update(partitions)
        found = (self.state(name, number) for name, number in partitions)
        states = [state for state in found if state is not None and broker in state.replicas]
        self._put_offline(states)
        context.replica_states.move(
            [(state.topic, state.partition, broker) for state in states], ReplicaState.OFFLINE
        )
        await self.revise(self._latest(states))
        self.sender.send(self.take_changed())

    async def controlled_shutdown(self, broker: int, broker_epoch: int) -> list[TopicPartition]:
        """Have others lead what a broker leads that is about to stop, and be in sync without it.

        Returns what it still leads though somebody else could, once in sync.
        """
        context, now = self.context, self.circumstances
        error = alter_partition.check_broker_epoch(now.brokers, broker, broker_epoch)
        if error is not ErrorCode.NONE:
            raise KafkaError(error)
        context.shutting_down.add(broker)
        held = [state for state in context.partitions() if broker in state.replicas]
        decided = [
            new
            for state in held
            if (new := elect_for_shutdown(state, self._staying(state), broker, now)) is not None
        ]
        logger.info("Broker %d is about to stop: %d partitions change", broker, len(decided))
        await self.update(decided)
        self.sender.send(self.take_changed())
        return [
            state.topic_partition
            for state in context.partitions()
            if state.leader == broker and self._staying(state)
        ]

    def _staying(self, state: LeaderAndIsr) -> list[int]:
        """Returns the replicas that can serve, and whose brokers are not about to stop."""
        return self.context.live_replicas(
            state.topic, state.partition, state.replicas, staying=True
        )

    # Leaders

    async def initialise_new_partitions(self) -> None:
        """First leaders for partitions whose creation was interrupted or had no live replica."""
        context = self.context
        waiting: dict[str, list[int]] = {}
        for name, number in context.partition_states.in_state(PartitionState.NEW):
            if name not in context.deleting:
                waiting.setdefault(name, []).append(number)
        states: list[LeaderAndIsr] = []
        for name, numbers in waiting.items():
            states += initial_states(context, context.topics[name], numbers)
        failure: Exception | None = None
        again = False
        for part, result in await self.write_states(writes.create_states(context, states)):
            if isinstance(result, NodeExistsError) and (found := await self._read_again(part)):
                # They were written when something else failed. The rest of the batch was not.
                part, again = found, True
            elif isinstance(result, Exception):
                failure = failure or result
                continue
            self.decided(part)
        if failure is not None:
            raise failure
        if again:
            await self.initialise_new_partitions()

    async def complete_creations(self) -> None:
        """Partitions without a state have one written that failed to be, and are told of."""
        await self.initialise_new_partitions()
        self.is_completing = False
        self.sender.send(self.take_changed())

    async def _read_again(self, states: Sequence[LeaderAndIsr]) -> list[LeaderAndIsr]:
        """Returns those of these partitions that the store has, as it has them."""
        context = self.context
        wanted = [(context.topics[state.topic], state.partition) for state in states]
        await read_states(self.store, context.brokers, wanted)
        return self._latest(states)

    def _latest(self, states: Iterable[LeaderAndIsr]) -> list[LeaderAndIsr]:
        """Returns what has become of these partitions, as far as they are there."""
        found = (self.state(state.topic, state.partition) for state in states)
        return [state for state in found if state is not None]

    @property
    def circumstances(self) -> Circumstances:
        """What decisions depend on besides the partition."""
        return Circumstances(self.context.brokers, self.context.epoch, self.min_isr)

    def min_isr(self, topic: str, leader: int) -> int:
        """Returns how many in-sync replicas a topic needs, as a broker sees it that leads it."""
        context = self.context
        nothing: dict[str, str] = {}
        for overrides in (
            context.topic_configs.get(topic, nothing),
            context.broker_configs.get(str(leader), nothing),
            context.broker_configs.get(EVERY_BROKER, nothing),
        ):
            value = overrides.get(MIN_INSYNC_REPLICAS)
            if value is not None:
                return int(value)
        broker = context.brokers.get(leader)
        return 1 if broker is None else broker.min_insync_replicas

    async def forget_eligible(self, topic: str | None = None) -> None:
        """A topic, or all, will need another number of in-sync replicas: what fewer of them could
        not acknowledge so far they may acknowledge from now on.
        """
        now = self.circumstances
        await self.update(
            [
                without_eligible(state, now)
                for state in self.context.partitions()
                if state.elr and topic in (None, state.topic)
            ]
        )
        self.sender.send(self.take_changed())

    async def revise(self, states: Sequence[LeaderAndIsr]) -> None:
        """Give these partitions the leaders and in-sync replicas that those who are up allow, all
        in one batch.
        """
        for _ in range(_ELECTION_ATTEMPTS):
            decided = self._decide(states)
            done = await self.update(decided)
            offline = [(state.topic, state.partition) for state in done if state.leader < 0]
            if offline:
                logger.warning(
                    "No replica can lead %d partitions, among them %s-%d", len(offline), *offline[0]
                )
            if len(done) == len(decided):
                return
            settled = {(state.topic, state.partition) for state in done}
            states = self._latest(
                state for state in decided if (state.topic, state.partition) not in settled
            )
        raise StoreUnavailableError("the states of partitions keep being changed by others")

    def _decide(self, states: Sequence[LeaderAndIsr]) -> list[LeaderAndIsr]:
        """Returns the states that have to be written."""
        context, now = self.context, self.circumstances
        unclean: dict[str, bool] = {}
        decided: list[LeaderAndIsr] = []
        for state in states:
            name = state.topic
            if name not in unclean:
                unclean[name] = self.allows_unclean_election(name)
            live = context.live_replicas(name, state.partition, state.replicas)
            new = revise(state, live, now, unclean=unclean[name])
            if new is not None:
                decided.append(new)
        return decided

    async def update(self, states: Sequence[LeaderAndIsr]) -> list[LeaderAndIsr]:
        """Write new states, and returns those that were written. What somebody else has changed is
        read again instead: brokers have to be told of that, too.
        """
        done: list[LeaderAndIsr] = []
        failure: Exception | None = None
        for part, result in await self.write_states(writes.update_states(self.context, states)):
            if isinstance(result, BadVersionError):
                logger.warning("Partition state %s was written by somebody else", result.path)
                self.decided(await self._read_again(part))
            elif isinstance(result, Exception):
                failure = failure or result
            else:
                done += part
        self.decided(done)
        if failure is not None:
            self.sender.send(self.take_changed())
            raise failure
        return done

    def decided(self, states: Sequence[LeaderAndIsr]) -> None:
        """These states are in the store."""
        self._put(states)
        for has_leader, target in ((True, PartitionState.ONLINE), (False, PartitionState.OFFLINE)):
            keys = [
                (state.topic, state.partition)
                for state in states
                if (state.leader >= 0) is has_leader
            ]
            self.context.partition_states.move(keys, target)

    def _put(self, states: Iterable[LeaderAndIsr]) -> None:
        context = self.context
        states = [context.with_offline(state) for state in states]
        context.put(states)
        for state in states:
            self._changed[state.topic, state.partition] = state

    def _put_offline(self, states: Iterable[LeaderAndIsr]) -> None:
        """Have those anew whose replicas fail on other disks than before."""
        self._put([one for one in states if self.context.with_offline(one) is not one])

    def take_changed(self) -> list[LeaderAndIsr]:
        """Returns what changed since last asked, each partition once: what brokers have to be
        told.
        """
        changed = list(self._changed.values())
        self._changed.clear()
        return changed

    # In-sync replicas

    async def alter_partitions(
        self, broker: int, broker_epoch: int, requests: Sequence[AlterPartition]
    ) -> list[AlterPartitionResult]:
        now = self.circumstances
        error = alter_partition.check_broker_epoch(now.brokers, broker, broker_epoch)
        if error is not ErrorCode.NONE:
            raise KafkaError(error)
        if not self.sender.knows_rules(broker):
            # With fewer in sync than min.insync.replicas those that leave may lead, because such a
            # leader acknowledges nothing. One that knows another number might, and its answer would
            # come before its settings do.
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION, f"Broker {broker} does not have its settings yet."
            )
        results: list[AlterPartitionResult] = []
        decided: list[LeaderAndIsr] = []
        for request in requests:
            current = self.state(request.topic, request.partition)
            staying = [] if current is None else self._staying(current)
            answer = alter_partition.decide(current, request, broker, staying, now)
            if isinstance(answer, ErrorCode):
                results.append(_refused(request.topic, request.partition, answer))
                if answer is ErrorCode.INELIGIBLE_REPLICA and current is not None:
                    decided.append(renewed(current, now))
                continue
            if answer is not current:
                decided.append(answer)
            results.append(_altered(answer))
        done = await self.update(decided)
        self.sender.send(self.take_changed())
        if len(done) < len(decided):
            written = {(state.topic, state.partition) for state in done}
            missed = {(state.topic, state.partition) for state in decided} - written
            results = [
                _refused(result.topic, result.partition, ErrorCode.INVALID_UPDATE_VERSION)
                if (result.topic, result.partition) in missed
                else result
                for result in results
            ]
        return results

    def state(self, name: str, partition: int) -> LeaderAndIsr | None:
        """Returns a partition as clients may see it."""
        topic = self.context.existing_topic(name)
        return None if topic is None else topic.partitions.get(partition)

    # Producer ids

    async def next_producer_id_block(self, broker: int) -> ProducerIdBlock:
        """Returns the next block of ids, recorded in the store before it is handed out."""
        data, stat = await self.store.get(paths.PRODUCER_ID_BLOCK)
        first = znodes.decode_producer_id_block(data).block_end + 1 if data else 0
        last = first + PRODUCER_ID_BLOCK_SIZE - 1
        if last > _MAX_PRODUCER_ID:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "Have exhausted all producerIds.")
        block = znodes.encode_producer_id_block(znodes.ProducerIdBlock(broker, first, last))
        write: list[Op] = [
            writes.fence(self.context),
            SetData(paths.PRODUCER_ID_BLOCK, block, stat.version),
        ]
        self.raise_errors(await self.write([write]))
        return ProducerIdBlock(first, PRODUCER_ID_BLOCK_SIZE)

    # Writing

    async def write(self, batches: Sequence[Sequence[Op]]) -> list[list[OpResult] | Exception]:
        """Write fenced batches; raises ControllerMovedError if another controller is in charge."""
        if not batches:
            return []
        results = await self.store.multi_many(batches)
        for result in results:
            if isinstance(result, BadVersionError) and result.path == paths.CONTROLLER_EPOCH:
                raise ControllerMovedError(str(result))
        return results

    async def write_states(
        self, batches: Sequence[writes.Batch]
    ) -> list[tuple[list[LeaderAndIsr], list[OpResult] | Exception]]:
        """Returns what became of each batch, and the partitions that it is about."""
        results = await self.write([batch.ops for batch in batches])
        return [(batch.states, result) for batch, result in zip(batches, results, strict=True)]

    @staticmethod
    def raise_errors(results: Iterable[list[OpResult] | Exception]) -> None:
        for result in results:
            if isinstance(result, Exception):
                raise result


def _refused(topic: str, partition: int, error: ErrorCode) -> AlterPartitionResult:
    return AlterPartitionResult(topic=topic, partition=partition, error=error)


def _altered(state: LeaderAndIsr) -> AlterPartitionResult:
    return AlterPartitionResult(
        topic=state.topic,
        partition=state.partition,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        partition_epoch=state.partition_epoch,
        leader_recovery_state=state.leader_recovery_state,
    )
