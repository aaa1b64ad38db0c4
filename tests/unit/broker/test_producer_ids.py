"""Producer ids: never the same twice, few reservations, failures without harm."""

from __future__ import annotations

import asyncio

import pytest

from moldau.broker.producer_ids import ProducerIds
from moldau.controller import ProducerIdBlock
from moldau.errors import ErrorCode, KafkaError


class Reservations:
    """A controller that hands out blocks, each after a turn of the loop."""

    def __init__(self, size: int = 10) -> None:
        self.made = 0
        self._size = size
        self.failing = False

    async def __call__(self) -> ProducerIdBlock:
        await asyncio.sleep(0)
        if self.failing:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the store is gone")
        self.made += 1
        # Other brokers take blocks in between.
        return ProducerIdBlock(first=self.made * 1000, count=self._size)


async def test_ids_come_from_one_block_until_it_is_used_up() -> None:
    reserve = Reservations(size=3)
    ids = ProducerIds(reserve)
    assert [await ids.next() for _ in range(7)] == [1000, 1001, 1002, 2000, 2001, 2002, 3000]
    assert reserve.made == 3


async def test_concurrent_callers_share_reservations_and_never_an_id() -> None:
    reserve = Reservations(size=10)
    ids = ProducerIds(reserve)
    given = await asyncio.gather(*(ids.next() for _ in range(95)))
    assert len(set(given)) == 95
    assert reserve.made == 10


async def test_nothing_is_reserved_before_it_is_needed() -> None:
    reserve = Reservations()
    ProducerIds(reserve)
    await asyncio.sleep(0)
    assert reserve.made == 0


async def test_a_failed_reservation_fails_its_callers_and_the_next_call_tries_again() -> None:
    reserve = Reservations()
    ids = ProducerIds(reserve)
    reserve.failing = True
    failed = await asyncio.gather(*(ids.next() for _ in range(3)), return_exceptions=True)
    assert all(isinstance(error, KafkaError) for error in failed)
    reserve.failing = False
    assert await ids.next() == 1000


async def test_a_caller_that_gives_up_takes_no_id_and_blocks_nobody() -> None:
    reserve = Reservations(size=2)
    ids = ProducerIds(reserve)
    impatient = asyncio.ensure_future(ids.next())
    patient = asyncio.ensure_future(ids.next())
    await asyncio.sleep(0)
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    assert await patient == 1000
    assert await ids.next() == 1001


async def test_an_empty_block_is_asked_for_again() -> None:
    blocks = iter([ProducerIdBlock(first=5, count=0), ProducerIdBlock(first=9, count=1)])

    async def reserve() -> ProducerIdBlock:
        return next(blocks)

    assert await ProducerIds(reserve).next() == 9
