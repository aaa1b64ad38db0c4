"""What is asked of the controller, as messages: one for each method of ``ControllerClient``.

That protocol is the only list of them. A message has the arguments of its method as fields, and its
answer is of the type that the method returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from functools import reduce
from operator import or_
from typing import Any, Final, NamedTuple, get_type_hints

import msgspec

from moldau.broker.controller_port import ControllerClient


class Call(NamedTuple):
    """A method of ``ControllerClient``."""

    method: str
    signature: inspect.Signature
    message: type[msgspec.Struct]
    answer: Any
    """The type of what it returns."""

    def ask(self, *args: object, **named: object) -> msgspec.Struct:
        """Returns the message for a call with these arguments."""
        bound = self.signature.bind(None, *args, **named)
        bound.apply_defaults()
        _, *fields = bound.arguments.values()
        return self.message(*fields)


def _call(method: str) -> Call:
    function = getattr(ControllerClient, method)
    hints = get_type_hints(function)
    answer = hints.pop("return")
    name = method.title().replace("_", "")
    message = msgspec.defstruct(name, list(hints.items()), frozen=True, tag=True)
    return Call(method, inspect.signature(function), message, answer)


CALLS: Final = {
    method: _call(method)
    for method, function in vars(ControllerClient).items()
    if inspect.iscoroutinefunction(function)
}
"""By the name of the method."""
_BY_MESSAGE: Final = {call.message: call for call in CALLS.values()}

ControllerRequest: Final[Any] = reduce(or_, _BY_MESSAGE)
"""The type of any message."""


def put_to(message: msgspec.Struct, controller: ControllerClient) -> Awaitable[object]:
    """Ask a controller for what the message says."""
    method = getattr(controller, _BY_MESSAGE[type(message)].method)
    asked: Awaitable[object] = method(**msgspec.structs.asdict(message))
    return asked
