"""Answers on their way out of a coordinator."""

from __future__ import annotations

import asyncio
from typing import Any

from moldau.coordinators.requests import gathered


def total(answers: list[Any]) -> int:
    return sum(answers)


async def test_answers_that_are_there_are_gathered_at_once() -> None:
    assert gathered([1, gathered([2, 3], total)], total) == 6


async def test_gathered_answers_may_be_gathered_again() -> None:
    late: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    answer = gathered([1, gathered([late, 3], total)], total)
    late.set_result(2)
    assert await answer == 6
