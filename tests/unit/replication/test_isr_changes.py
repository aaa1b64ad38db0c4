"""What partitions want of the controller: asked together, one request at a time, until answered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest
from tests.support.partitions import LOCAL, PLENTY, SECOND, THIRD, append, make_log, state

from moldau.controller import AlterPartition, AlterPartitionResult
from moldau.errors import ErrorCode, KafkaError
from moldau.machine.clock import steady_ms
from moldau.replication import IsrChanges, LeaderPorts, Partition
from moldau.replication import isr_changes as module
from moldau.testing.clock import ManualClock

MAX_LAG_MS = 10_000
EPOCHS = {LOCAL: 100, SECOND: 200, THIRD: 300}


class World:
    """Partitions of one broker, and a controller that answers when a test says so."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.ports = LeaderPorts(lambda: steady_ms(self.clock), MAX_LAG_MS)
        self.ports.alive = dict(EPOCHS)
        self.partitions: list[Partition] = []
        self.requests: list[Sequence[AlterPartition]] = []
        self._answers: list[asyncio.Future[Sequence[AlterPartitionResult]]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.changes = IsrChanges(
            self._alter_partitions,
            lambda: self.partitions,
            max_lag_ms=MAX_LAG_MS,
            clock=self.clock,
            random=Random(1),
            spawn=lambda work: self._tasks.append(asyncio.ensure_future(work)),
        )
        self.ports.ask = self.changes.ask

    async def _alter_partitions(
        self, requests: Sequence[AlterPartition]
    ) -> Sequence[AlterPartitionResult]:
        self.requests.append(requests)
        answer: asyncio.Future[Sequence[AlterPartitionResult]] = asyncio.Future()
        self._answers.append(answer)
        return await answer

    def lead(self, topic: str, isr: Sequence[int] = (LOCAL,)) -> Partition:
        partition = Partition(
            LOCAL, make_log(topic=topic), state(topic=topic, isr=isr), ports=self.ports
        )
        self.partitions.append(partition)
        return partition

    @property
    def asked(self) -> list[list[str]]:
        return [[request.topic for request in requests] for requests in self.requests]

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def answer(self, *errors: ErrorCode) -> None:
        """Answer the request under way, a code for each of its partitions."""
        requests = self.requests[-1]
        codes = errors or [ErrorCode.NONE] * len(requests)
        self._answers.pop().set_result(
            [
                AlterPartitionResult(
                    topic=request.topic,
                    partition=request.partition,
                    error=code,
                    leader=LOCAL,
                    leader_epoch=request.leader_epoch,
                    isr=request.new_isr,
                    partition_epoch=request.partition_epoch + 1,
                )
                for request, code in zip(requests, codes, strict=True)
            ]
        )
        await self.settle()

    async def fail(self, error: ErrorCode | Exception) -> None:
        failure = KafkaError(error) if isinstance(error, ErrorCode) else error
        self._answers.pop().set_exception(failure)
        await self.settle()


def fetch(partition: Partition, follower: int, offset: int = 0) -> None:
    partition.read(offset, PLENTY, follower_id=follower, follower_epoch=EPOCHS[follower])


async def test_what_is_wanted_in_one_turn_is_asked_in_one_request() -> None:
    world = World()
    first, second = world.lead("a"), world.lead("b")
    fetch(first, SECOND)
    fetch(second, SECOND)
    await world.settle()
    assert world.asked == [["a", "b"]]
    request = world.requests[0][0]
    assert (request.new_isr, request.new_isr_epochs) == ((LOCAL, SECOND), (-1, 200))
    await world.answer()
    assert list(first.isr) == list(second.isr) == [LOCAL, SECOND]
    assert (world.changes.expands, world.changes.shrinks, world.changes.failures) == (2, 0, 0)


async def test_one_request_is_under_way_at_a_time() -> None:
    world = World()
    first, second = world.lead("a"), world.lead("b")
    fetch(first, SECOND)
    await world.settle()
    fetch(second, SECOND)
    fetch(first, THIRD)
    await world.settle()
    assert world.asked == [["a"]]
    await world.answer()
    assert world.asked == [["a"], ["b", "a"]]
    assert world.requests[1][1].new_isr == (LOCAL, SECOND, THIRD)
    await world.answer()
    assert list(first.isr) == [LOCAL, SECOND, THIRD]


@pytest.mark.parametrize(
    "error",
    [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH],
    ids=lambda error: error.name,
)
async def test_a_request_without_answer_is_made_again_after_a_pause(error: ErrorCode) -> None:
    world = World()
    partition = world.lead("a")
    fetch(partition, SECOND)
    await world.settle()
    await world.fail(error)
    assert world.asked == [["a"]]
    world.clock.advance(1)
    await world.settle()
    assert world.asked == [["a"], ["a"]]
    assert world.requests[0] == world.requests[1]
    assert list(partition.isr) == [LOCAL]
    await world.answer()
    assert list(partition.isr) == [LOCAL, SECOND]
    assert world.changes.failures == 1


async def test_pauses_grow_and_are_short_again_after_an_answer() -> None:
    world = World()
    fetch(world.lead("a"), SECOND)
    await world.settle()
    for requests in range(1, 12):
        assert len(world.requests) == requests
        await world.fail(ErrorCode.REQUEST_TIMED_OUT)
        world.clock.advance(module.LONGEST_PAUSE_S * 1.3)
        await world.settle()
    await world.answer()
    fetch(world.lead("b"), SECOND)
    await world.settle()
    await world.fail(ErrorCode.REQUEST_TIMED_OUT)
    world.clock.advance(module.FIRST_PAUSE_S * 1.3)
    await world.settle()
    assert world.asked[-1] == ["b"]


async def test_what_the_controllers_word_has_settled_is_not_asked_again() -> None:
    world = World()
    partition = world.lead("a")
    fetch(partition, SECOND)
    await world.settle()
    partition.apply(state(topic="a", isr=(LOCAL, SECOND), partition_epoch=1))
    await world.fail(ErrorCode.REQUEST_TIMED_OUT)
    world.clock.advance(1)
    await world.settle()
    assert world.asked == [["a"]]


async def test_each_partition_has_its_own_answer() -> None:
    world = World()
    partitions = [world.lead(topic) for topic in "abc"]
    for partition in partitions:
        fetch(partition, SECOND)
    await world.settle()
    await world.answer(
        ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR
    )
    world.clock.advance(1)
    await world.settle()
    assert world.asked == [["a", "b", "c"], ["c"]]
    assert [partition.isr_change is None for partition in partitions] == [False, True, False]
    await world.answer(ErrorCode.INELIGIBLE_REPLICA)
    partitions[2].apply(state(topic="c", isr=(LOCAL,), partition_epoch=2))
    assert partitions[2].isr_change is None
    assert list(partitions[2].isr) == [LOCAL]
    assert (world.changes.expands, world.changes.failures) == (1, 3)


async def test_a_request_has_its_limits() -> None:
    world = World()
    for number in range(module.PARTITIONS_PER_REQUEST + 1):
        world.changes.ask(world.lead(f"t{number}", (LOCAL, SECOND)))
    assert world.asked == [], "nobody wants anything"
    wanting = [world.lead(f"w{number}") for number in range(3)]
    for partition in wanting:
        fetch(partition, SECOND)
    await world.settle()
    assert world.asked == [["w0", "w1", "w2"]]


async def test_lagging_followers_are_looked_for_every_half_of_the_lag_time() -> None:
    world = World()
    partition = world.lead("a", (LOCAL, SECOND))
    append(partition, 1)
    world.changes.start()
    for _ in range(2):
        world.clock.advance(MAX_LAG_MS / 2000)
        await world.settle()
        assert world.asked == []
    world.clock.advance(MAX_LAG_MS / 2000)
    await world.settle()
    assert world.asked == [["a"]]
    assert world.requests[0][0].new_isr == (LOCAL,)
    await world.answer()
    assert list(partition.isr) == [LOCAL]
    assert partition.high_watermark == 1
    assert (world.changes.expands, world.changes.shrinks) == (0, 1)
    world.changes.stop()
    assert world.clock.pending == 0


async def test_a_broker_that_comes_is_looked_at_soon() -> None:
    world = World()
    partition = world.lead("a")
    world.ports.alive = {LOCAL: 100}
    fetch(partition, SECOND)
    await world.settle()
    assert world.asked == []
    world.ports.alive = dict(EPOCHS)
    world.changes.review()
    world.changes.review()
    await world.settle()
    assert world.asked == [["a"]]


async def test_what_is_pending_is_asked_for_again_now_and_then() -> None:
    world = World()
    partition = world.lead("a")
    fetch(partition, SECOND)
    await world.settle()
    await world.answer(ErrorCode.INVALID_UPDATE_VERSION)
    world.clock.advance(1)
    await world.settle()
    assert world.asked == [["a"]]
    world.changes.review()
    await world.settle()
    assert world.asked == [["a"], ["a"]]
    await world.answer()
    assert list(partition.isr) == [LOCAL, SECOND]


async def test_no_failure_ends_the_asking(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    partition = world.lead("a")
    fetch(partition, SECOND)
    await world.settle()
    await world.fail(ValueError("for this test"))
    world.clock.advance(1)
    await world.settle()
    await world.answer()
    assert list(partition.isr) == [LOCAL, SECOND]
    assert "for this test" in caplog.text
