"""Random lives of a cluster: whatever happens, the brokers agree with each other and the store."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.controller.harness import Cluster

from moldau.controller import NewPartitions, NewTopic, TopicReference
from moldau.controller.courier import LONGEST_RETRY_S
from moldau.coordination import paths

TOPICS = ("a", "b", "c")
BROKERS = (1, 2, 3)


class Life:
    """A cluster and what may happen to it; each step keeps at least one broker alive."""

    def __init__(self, seed: int, *, is_lossy: bool = False) -> None:
        self.random = Random(seed)
        self.is_lossy = is_lossy
        """Whether messages and answers are lost while something happens."""
        self.cluster = Cluster()
        self.live: set[int] = set()
        self.epochs: dict[tuple[str, int, str], int] = {}
        self.controller_epoch = 0

    def steps(self) -> list[Callable[[], Awaitable[None]]]:
        return [self.start, self.start, self.kill, self.stop, self.bounce, self.create, self.create]

    def more_steps(self) -> list[Callable[[], Awaitable[None]]]:
        return [self.delete, self.grow, self.shrink_isr, self.lose_disk, self.crash]

    async def run(self, length: int) -> None:
        await self.cluster.start(1)
        self.live = {1}
        for _ in range(length):
            step = self.random.choice(self.steps() + self.more_steps())
            self.cluster.losses = self.random if self.is_lossy else None
            await step()
            self.cluster.losses = None
            if self.is_lossy:
                await self.cluster.settle()
                self.cluster.clock.advance(2 * LONGEST_RETRY_S)
            await self.cluster.settle()
            await self.check()

    async def start(self) -> None:
        dead = [broker for broker in BROKERS if broker not in self.live]
        if dead:
            broker = self.random.choice(dead)
            await self.cluster.start(broker)
            self.live.add(broker)

    async def kill(self) -> None:
        if len(self.live) > 1:
            broker = self.random.choice(sorted(self.live))
            await self.cluster.kill(broker)
            del self.cluster.controllers[broker]
            self.live.discard(broker)

    async def stop(self) -> None:
        if len(self.live) > 1:
            broker = self.random.choice(sorted(self.live))
            await self.cluster.stop(broker)
            self.live.discard(broker)

    async def bounce(self) -> None:
        """A broker is gone and back before a controller has looked."""
        if len(self.live) > 1:
            broker = self.random.choice(sorted(self.live))
            self.cluster.controllers.pop(broker)
            await self.cluster.expire(broker)
            await self.cluster.start(broker)

    async def create(self) -> None:
        name = self.random.choice(TOPICS)
        factor = self.random.randint(1, len(self.live))
        partitions = self.random.randint(1, 4)
        unclean = {"unclean.leader.election.enable": "true"} if self.random.random() < 0.3 else {}
        await self.cluster.active.create_topics(
            [
                NewTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=factor,
                    configs=unclean,
                )
            ]
        )

    async def delete(self) -> None:
        await self.cluster.active.delete_topics([TopicReference(self.random.choice(TOPICS))])

    async def grow(self) -> None:
        request = NewPartitions(topic=self.random.choice(TOPICS), count=self.random.randint(1, 6))
        await self.cluster.active.create_partitions([request])

    async def shrink_isr(self) -> None:
        context = self.cluster.active.context
        assert context is not None
        led = [state for state in context.partitions() if state.leader in self.live]
        if led:
            state = self.random.choice(led)
            await self.cluster.alter_isr(state, state.leader)

    async def lose_disk(self) -> None:
        broker = self.random.choice(sorted(self.live))
        held = sorted(self.cluster.brokers[broker].replicas)
        if held:
            epoch = self.cluster.controllers[broker].broker_epoch
            await self.cluster.active.offline_replicas(broker, epoch, [self.random.choice(held)])

    async def crash(self) -> None:
        """Everything dies at once; some of the brokers come back, in any order."""
        self.cluster = await self.cluster.crash()
        self.live = set()
        for broker in self.random.sample(BROKERS, self.random.randint(1, 3)):
            await self.cluster.start(broker)
            self.live.add(broker)

    async def check(self) -> None:
        active = self.cluster.active
        assert active.epoch >= self.controller_epoch
        self.controller_epoch = active.epoch
        context = active.context
        assert context is not None
        truth = {(state.topic, state.partition): state for state in context.partitions()}
        for broker in self.live:
            view = self.cluster.brokers[broker]
            assert view.metadata == truth
            assert view.brokers == sorted(self.live)
            for key, state in truth.items():
                if broker in state.replicas:
                    assert view.replicas[key] == state
        session = self.cluster.store.session()
        for (topic, number), state in truth.items():
            data, stat = await session.get(paths.partition_state(topic, number))
            stored = json.loads(data)
            assert (stored["leader"], stored["leader_epoch"]) == (state.leader, state.leader_epoch)
            assert (tuple(stored["isr"]), stat.version) == (state.isr, state.partition_epoch)
            assert state.isr, "a partition never loses its last in-sync replica"
            assert set(state.isr) <= set(state.replicas)
            online = [one for one in state.isr if context.is_online(one, topic, number)]
            assert state.leader in online or (state.leader == -1 and not online)
            known = (topic, number, str(state.topic_id))
            assert state.leader_epoch >= self.epochs.get(known, 0)
            self.epochs[known] = state.leader_epoch
        await session.close()


class Errors(logging.Handler):
    """Events run in the background; what goes wrong there is only logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        # Nothing of clients that other tests left behind.
        ours = record.name.startswith(("moldau.controller", "moldau.coordination"))
        # A broker that was just killed is found unreachable; that is no fault.
        if ours and "did not take an update" not in record.msg:
            self.seen.append(logging.Formatter().format(record))


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_brokers_agree_whatever_happens(seed: int) -> None:
    live(Life(seed))


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_brokers_agree_in_the_end_whatever_is_lost(seed: int) -> None:
    live(Life(seed, is_lossy=True))


def live(life: Life) -> None:
    errors = Errors()
    logger = logging.getLogger("moldau")
    logger.addHandler(errors)
    try:
        asyncio.run(life.run(20))
    finally:
        logger.removeHandler(errors)
    assert errors.seen == []
