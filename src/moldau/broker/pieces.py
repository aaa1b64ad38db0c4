"""A request with many items, cut into several with fewer, and their answers put together."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import is_dataclass, replace
from enum import Enum, auto
from functools import cache
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from moldau.wire.schema import fields_of

Path: TypeAlias = tuple[str, ...]
"""The names of arrays from the message down to the items: ``("topics", "partitions")``."""


class Doubles(Enum):
    """What becomes of an item that a request has more than once."""

    EACH = auto()
    """Each is executed, one after the other."""
    REFUSED = auto()
    """The handler refuses what it finds twice."""
    ONCE_IF_LARGE = auto()
    """Answered once, in requests with very many items: answers may be far larger than their
    questions.
    """
    ONCE = auto()
    """Answered once: a few items can be very much."""


class Pieces(NamedTuple):
    """Where the items of an API lie. Whoever asks in several requests gets the same."""

    request: Path
    response: Path
    doubles: Doubles


def pieces(request: str, response: str | None = None, *, doubles: Doubles = Doubles.EACH) -> Pieces:
    """Paths are written with dots; the response's is the same unless it is given."""
    return Pieces(tuple(request.split(".")), tuple((response or request).split(".")), doubles)


def distinct(message: Any, path: Path) -> Any:
    """The message with every item once."""
    return _distinct(message, path, (), set())


def _distinct(message: Any, path: Path, above: Hashable, seen: set[Hashable]) -> Any:
    name, rest = path[0], path[1:]
    items = getattr(message, name)
    if not items:
        return message
    kept = []
    for item in items:
        if rest:
            head = (above, replace(item, **{rest[0]: ()}))
            part = _distinct(item, rest, head, seen)
            if getattr(part, rest[0]) or head not in seen:
                kept.append(part)
            seen.add(head)
        elif (above, item) not in seen:
            seen.add((above, item))
            kept.append(item)
    return (
        message if len(kept) == len(items) and not rest else replace(message, **{name: tuple(kept)})
    )


def together(message: Any, path: Path) -> Any:
    """The message with what is named twice next to each other, and nothing named more often: in
    one piece, a handler sees it and does as in a small request, refuse it as a rule.
    """
    name, rest = path[0], path[1:]
    items = getattr(message, name)
    if not items:
        return message
    groups: dict[Hashable, list[Any]] = {}
    for item in items:
        groups.setdefault(_names(item), []).append(item)
    if not rest:
        kept = [item for same in groups.values() for item in same[:2]]
    else:
        kept = [together(item, rest) for same in groups.values() for item in _merged(same, rest[0])]
    return replace(message, **{name: tuple(kept)})


def _merged(items: list[Any], name: str) -> list[Any]:
    """One item instead of several that differ in nothing but this array."""
    first, *others = items
    arrays = [getattr(item, name) for item in items]
    if not others or None in arrays or not all(_are_halves(first, one, name) for one in others):
        return items
    return [replace(first, **{name: tuple(chain.from_iterable(arrays))})]


def _names(item: Any) -> Hashable:
    """What an item is about: its name, id or number; itself if it has none."""
    kind: type = type(item)
    fields = _naming_fields(kind) if is_dataclass(kind) else ()
    return tuple([getattr(item, name) for name in fields]) or item


_NAMING = frozenset(
    {
        "entity",
        "group_id",
        "group_instance_id",
        "member_id",
        "name",
        "partition",
        "partition_index",
        "path",
        "resource_name",
        "resource_type",
        "topic",
        "topic_id",
    }
)


@cache
def _naming_fields(message: type) -> tuple[str, ...]:
    return tuple(spec.name for spec in fields_of(message) if spec.name in _NAMING)


def split(message: Any, path: Path, most: int) -> Iterator[Any]:
    """The message as several that have at most so many items each, or one more: two of the same
    name are not torn apart.
    """
    name, rest = path[0], path[1:]
    items = getattr(message, name)
    if not items:  # null has a meaning of its own
        yield message
        return
    held: list[Any] = []
    size = 0
    for item in items:
        for part in split(item, rest, most) if rest else (item,):
            weight = _count(part, rest)
            if held and size + weight > most and (rest or _names(held[-1]) != _names(part)):
                yield replace(message, **{name: tuple(held)})
                held, size = [], 0
            held.append(part)
            size += weight
    yield replace(message, **{name: tuple(held)})


def _count(item: Any, path: Path) -> int:
    """An item without anything in it costs something, too."""
    if not path:
        return 1 + (_elements(item) if is_dataclass(item) else 0)
    return 1 + sum(_count(inner, path[1:]) for inner in getattr(item, path[0]) or ())


def _elements(message: Any) -> int:
    """How many elements the arrays of a message have, all in all."""
    kind: type = type(message)
    found = 0
    for name, is_nested in _arrays(kind):
        items = getattr(message, name) or ()
        found += len(items)
        if is_nested:
            found += sum(map(_elements, items))
    return found


def join(messages: Sequence[Any], path: Path) -> Any:
    """The answers to the pieces as one: all their items, or the first that is an error as a
    whole.
    """
    for message in messages:
        if getattr(message, "error_code", 0):
            return message
    name, rest = path[0], path[1:]
    items: list[Any] = []
    for message in messages:
        part = list(getattr(message, name) or ())
        if rest and items and part and _are_halves(items[-1], part[0], rest[0]):
            items.append(join((items.pop(), part.pop(0)), rest))
        items += part
    return replace(messages[0], **{name: tuple(items)})


def _are_halves(one: Any, other: Any, name: str) -> bool:
    """Returns whether two items differ in nothing but the array that was cut."""
    return bool(replace(one, **{name: ()}) == replace(other, **{name: ()}))


def has_more_elements(message: Any, most: int) -> bool:
    """Returns whether the arrays of a message have more elements, all in all."""
    return _room(message, most) < 0


def _room(message: Any, room: int) -> int:
    """What is left of so many elements; negative, if they are too few."""
    kind: type = type(message)
    for name, is_nested in _arrays(kind):
        items = getattr(message, name)
        if items:
            room -= len(items)
            for item in items if is_nested else ():
                if room < 0:
                    return room
                room = _room(item, room)
    return room


@cache
def _arrays(message: type) -> tuple[tuple[str, bool], ...]:
    """The arrays of a message, and whether their elements have arrays, too."""
    return tuple(
        (spec.name, spec.entity is not None and bool(_arrays(spec.entity)))
        for spec in fields_of(message)
        if spec.is_array
    )
