"""Columns that a query names and its tables do not have, and the columns that it has itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from moldau.spark.pipeline.problems import did_you_mean
from moldau.spark.pipeline.sql.frames import OPEN, Frame, fields, is_struct, merged
from moldau.spark.pipeline.sql.schemas import Type

Frames = Mapping[str, Frame]
"""By name in lower case."""

_BARE: Final = frozenset(
    (
        *("current_date", "current_timestamp", "current_time", "current_user", "current_catalog"),
        *("current_database", "current_schema", "current_timezone", "localtimestamp", "localtime"),
        *("user", "session_user", "grouping__id", "window", "session_window"),
    )
)
"""Functions that are written without brackets, and columns that grouping by time makes."""

_UNITS: Final = frozenset(
    (
        *("year", "quarter", "month", "week", "day", "dayofyear", "hour", "minute", "second"),
        *("millisecond", "microsecond", "years", "months", "days", "hours", "minutes", "seconds"),
    )
)


@dataclass(frozen=True)
class Unknown:
    """A column that is nowhere."""

    name: str
    message: str


class Resolver:
    """One query or expression; ``unknown`` has what it complains of."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self.unknown: list[Unknown] = []

    def query(self, node: Any, ctes: Frames, outer: Sequence[Frames] = ()) -> Frame:
        """The columns of a query, whose own are looked up on the way."""
        if isinstance(node, exp.Subquery):
            return self.query(node.this, ctes, outer)
        known = dict(ctes)
        for cte in getattr(node, "ctes", ()):
            recursive = node.args["with_"].args.get("recursive")
            inner = {**known, cte.alias.lower(): OPEN} if recursive else known
            known[cte.alias.lower()] = _renamed(self.query(cte.this, inner, outer), cte)
        if isinstance(node, exp.SetOperation):
            left = self.query(node.this, known, outer)
            self.query(node.expression, known, outer)
            return Frame(dict.fromkeys(left.types), left.open)
        if not isinstance(node, exp.Select):
            return OPEN
        sources = self._sources(node, known, outer)
        self._check(node, known, (sources, *outer))
        return self._output(node, sources)

    def expression(self, node: Any, frame: Frame) -> None:
        """An expression over the rows of one frame."""
        self._check(node, {}, ({"": frame},))

    def _sources(self, select: exp.Select, ctes: Frames, outer: Sequence[Frames]) -> Frames:
        found: dict[str, Frame] = {}
        origin = select.args.get("from_")
        tables = [] if origin is None else [origin.this]
        tables += [join.this for join in select.args.get("joins") or ()]
        for table in tables:
            for lateral in (table, *(table.args.get("joins") or ())):
                one = lateral.this if isinstance(lateral, exp.Join) else lateral
                found[_alias(one, len(found))] = self._table(one, ctes, (found, *outer))
        for lateral in select.args.get("laterals") or ():
            names = [column.name for column in lateral.args["alias"].columns]
            found[_alias(lateral, len(found))] = Frame(dict.fromkeys(names), not names)
        return found

    def _table(self, table: Any, ctes: Frames, outer: Sequence[Frames]) -> Frame:
        if table.args.get("pivots"):
            return OPEN
        if isinstance(table, exp.Subquery):
            return _renamed(self.query(table.this, ctes, outer), table)
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            return OPEN
        if table.args.get("db"):
            return OPEN  # of a catalog of Spark's
        name = table.name.lower()
        return _renamed(ctes.get(name, self._frames.get(name, OPEN)), table)

    def _check(self, node: Any, ctes: Frames, scopes: Sequence[Frames]) -> None:
        aliases = {one.alias.lower() for one in getattr(node, "selects", ()) if one.alias}
        for one in _own(node):
            if isinstance(one, exp.Column):
                self._column(one, aliases, scopes)
            elif one is not node and isinstance(one, exp.Query):
                self.query(one, ctes, scopes)

    def _column(self, column: exp.Column, aliases: set[str], scopes: Sequence[Frames]) -> None:
        parts = [part.name for part in column.parts if isinstance(part, exp.Identifier)]
        if not parts or _is_no_column(column, parts[0].lower()):
            return
        frames = [frame for scope in scopes for frame in scope.values()]
        first = parts[0].lower()
        if isinstance(column.this, exp.Star) and any(first in scope for scope in scopes):
            return
        qualified = next((scope[first] for scope in scopes if first in scope), None)
        holders = [frame for frame in frames if frame.has(first)]
        if qualified is not None and len(parts) > 1:
            if qualified.has(parts[1]):
                self._fields(qualified.type_of(parts[1]), parts[1:])
            elif not qualified.open and not holders:
                self._complain(parts[1], f"{parts[0]} has no column {parts[1]}", [qualified])
        elif holders:
            if len(holders) == 1:
                self._fields(holders[0].type_of(first), parts)
        elif not self._may_be_there(parts, aliases, scopes, frames):
            self._complain(parts[0], f"there is no column {parts[0]}", frames)

    def _may_be_there(
        self,
        parts: list[str],
        aliases: set[str],
        scopes: Sequence[Frames],
        frames: Sequence[Frame],
    ) -> bool:
        if any(frame.open for frame in frames) or parts[0].lower() in aliases:
            return True
        # A table may be named with its catalog before it.
        return len(parts) > 2 and any(part.lower() in scope for part in parts for scope in scopes)

    def _fields(self, kind: Type, parts: list[str]) -> None:
        """``parts``: a column, and fields in each other."""
        for before, name in itertools.pairwise(parts):
            if kind is None or not is_struct(kind):
                return
            known = {one.lower(): (one, inner) for one, inner in fields(kind).items()}
            if name.lower() not in known:
                hint = did_you_mean(name, [one for one, _ in known.values()])
                self.unknown.append(Unknown(name, f"{before} has no field {name}: {hint}"))
                return
            kind = known[name.lower()][1]

    def _complain(self, name: str, what: str, frames: Sequence[Frame]) -> None:
        known = dict.fromkeys(one for frame in frames for one in frame.types)
        self.unknown.append(Unknown(name, f"{what}: {did_you_mean(name, known)}"))

    def _output(self, select: exp.Select, sources: Frames) -> Frame:
        types: dict[str, Type] = {}
        opened = False
        for item in select.selects:
            frame = _item(item, sources)
            opened = opened or frame.open
            types.update(frame.types)
        return Frame(types, opened)


def _item(item: Any, sources: Frames) -> Frame:
    """What one item of SELECT adds."""
    if isinstance(item, exp.Star):
        return _without(merged(sources.values()), item)
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
        if item.table.lower() in sources and not item.args.get("db"):
            return _without(sources[item.table.lower()], item.this)
        return OPEN
    if isinstance(item, exp.Alias):
        kind = _type(item.this, sources) if isinstance(item.this, exp.Column) else None
        return Frame({item.alias: kind})
    if isinstance(item, exp.Column):
        return Frame({item.name: _type(item, sources)})
    return OPEN  # Spark makes a name


def _type(column: exp.Column, sources: Frames) -> Type:
    parts = [part.name for part in column.parts]
    if parts[0].lower() in sources and len(parts) > 1:
        frame, parts = sources[parts[0].lower()], parts[1:]
    else:
        frame = merged(sources.values())
    kind = frame.type_of(parts[0])
    for name in parts[1:]:
        if kind is None or not is_struct(kind):
            return None
        kind = {one.lower(): inner for one, inner in fields(kind).items()}.get(name.lower())
    return kind


def _without(frame: Frame, star: exp.Star) -> Frame:
    if star.args.get("rename") or star.args.get("replace"):
        return OPEN
    gone = {one.name.lower() for one in star.args.get("except_") or ()}
    types = {name: kind for name, kind in frame.types.items() if name.lower() not in gone}
    return Frame(types, frame.open)


def _renamed(frame: Frame, node: Any) -> Frame:
    """Columns may get other names with the alias: ``t (a, b)``."""
    names = node.alias_column_names
    return Frame(dict.fromkeys(names)) if names else frame


def _alias(node: Any, number: int) -> str:
    return str(node.alias_or_name).lower() or f"{number}"


def _is_no_column(column: exp.Column, name: str) -> bool:
    if name in _BARE or (name in _UNITS and isinstance(column.parent, exp.Func)):
        return True
    if isinstance(column.parent, (exp.Kwarg, exp.PropertyEQ)) and column.arg_key == "this":
        return True
    parent = column.parent
    while parent is not None and not isinstance(parent, exp.Query):
        if isinstance(parent, exp.Lambda) and name in {
            one.name.lower() for one in parent.expressions
        }:
            return True
        parent = parent.parent
    return False


def _own(node: Any) -> Iterator[Any]:
    """The nodes of a query without those of the queries in it, which are given as one.

    What is in FROM and WITH has been looked at before.
    """
    skipped = ("from_", "with_") if isinstance(node, exp.Select) else ()
    left = [
        child
        for key, value in node.args.items()
        if key not in skipped
        for child in (value if isinstance(value, list) else [value])
        if isinstance(child, exp.Expr)
    ]
    if isinstance(node, exp.Column):
        yield node
        return
    while left:
        one = left.pop()
        if isinstance(one, exp.Join):
            on = one.args.get("on")
            left += [on] if on is not None else []
            continue
        yield one
        if isinstance(one, (exp.Query, exp.Column)):
            continue
        left += one.iter_expressions()
