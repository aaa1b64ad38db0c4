"""Options as tables of a documentation page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from moldau.config.option import REQUIRED, AnyOption
from moldau.config.types import MAX_INT, MAX_LONG, ConfigType

Column = Callable[[AnyOption], str]

_SIZES: Final = ("bytes", "buffer.size", "buffer.memory", "batch.size", "request.size")
"""How the names of settings end that count bytes."""


def option_table(options: Iterable[AnyOption], more: dict[str, Column] | None = None) -> str:
    """A row for each option, by name; ``more`` are columns between the limits and the meaning."""
    columns: dict[str, Column] = {
        "Name": _name,
        "Type": lambda option: option.kind,
        "Default": default_text,
        "Allowed": _allowed,
        **(more or {}),
        "Meaning": _meaning,
    }
    rows = [list(columns), ["---"] * len(columns)]
    rows += [
        [column(option) for column in columns.values()]
        for option in sorted(options, key=lambda option: option.name)
    ]
    return "".join(_row(cells) for cells in rows)


def default_text(option: AnyOption) -> str:
    value = option.default
    if value is REQUIRED:
        return "required"
    if value is None:
        return "not set"
    text = option.format(value)
    if not text:
        return "empty"
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return f"`{text.replace(',', ', ')}`{_size(option.name, value) if is_number else ''}"


def _row(cells: list[str]) -> str:
    rule = cells[0] == "---"
    return f"|{'|'.join(cells)}|\n" if rule else f"| {' | '.join(cells)} |\n"


def _name(option: AnyOption) -> str:
    return f"`{option.name}` †" if option.inert else f"`{option.name}`"


def _meaning(option: AnyOption) -> str:
    return f"{option.doc} Internal: for tests." if option.internal else option.doc


def _allowed(option: AnyOption) -> str:
    if option.allowed is not None:
        return option.allowed.text
    return "true, false" if option.type is ConfigType.BOOLEAN else ""


def _size(name: str, value: int) -> str:
    """The number in units that people think in."""
    if value in (MAX_INT, MAX_LONG):
        return " (no limit)"
    if name.endswith(_SIZES):
        size = value * 1024 if name.endswith("kbytes") else value
        return _in_units(size, (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)))
    if name.endswith(".ms"):
        return _in_units(value, (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)))
    return ""


def _in_units(value: int, units: tuple[tuple[str, int], ...]) -> str:
    for unit, size in units:
        if value >= size and value % size == 0:
            return f" ({value // size} {unit})"
    return ""
