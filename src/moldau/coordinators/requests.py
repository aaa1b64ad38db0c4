"""A request on its way through a coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Any, TypeAlias

from moldau.errors import ErrorCode, KafkaError

ErrorAnswer: TypeAlias = Callable[[KafkaError], Any]
"""Makes the answer of one API that says nothing but an error."""

Answer: TypeAlias = Any | Awaitable[Any]
"""A response, or the promise of one."""


class PendingRequest:
    """The token of a request: is answered once, now or later."""

    __slots__ = ("_error_answer", "_future", "_response", "answered")

    def __init__(self, error_answer: ErrorAnswer) -> None:
        self._error_answer = error_answer
        self._future: asyncio.Future[Any] | None = None
        self._response: Any = None
        self.answered = False

    def answer(self, response: Any) -> None:
        """The response; whatever comes after the first is ignored."""
        if self.answered:
            return
        self.answered = True
        if self._future is None:
            self._response = response
        elif not self._future.done():
            self._future.set_result(response)

    def fail(self, code: ErrorCode) -> None:
        if not self.answered:
            self.answer(self._error_answer(KafkaError(code)))

    def result(self) -> Answer:
        """Returns the response if it is there, otherwise a future of it."""
        if self.answered:
            return self._response
        self._future = asyncio.get_running_loop().create_future()
        return self._future


def gathered(answers: Sequence[Answer], combine: Callable[[list[Any]], Any]) -> Answer:
    """Returns one answer of several, which may be gathered ones: at once if all of them are
    there.
    """
    if not any(isawaitable(answer) for answer in answers):
        return combine(list(answers))

    async def wait() -> Any:
        return combine([await answer if isawaitable(answer) else answer for answer in answers])

    return wait()
