"""Whether a Python step's function is there, without running its file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from moldau.spark.pipeline.problems import did_you_mean

_MAKES_NAMES: Final = frozenset(("*", "exec", "globals", "setattr", "vars", "__getattr__"))
"""With one of these a file may have any name."""


def function_problem(reference: str, folder: Path) -> str | None:
    """Of ``file.py:function`` only: modules are Python's business."""
    place, _, name = reference.rpartition(":")
    if not place.endswith(".py"):
        return None
    file = folder / place
    if not file.is_file():
        return f"there is no file {file}: it is looked for beside the pipeline's"
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except SyntaxError as error:
        return f"{file}:{error.lineno}: {error.msg}"
    except (OSError, ValueError):
        return None
    # Wherever a name stands: functions may be defined below ``if`` and ``try``.
    mentioned = {one for node in ast.walk(tree) for one in _names(node)}
    if name in mentioned or mentioned & _MAKES_NAMES:
        return None
    functions = {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
    return f"{file} has no function {name}: {did_you_mean(name, functions)}"


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Name():
            yield node.id
        case ast.alias():
            yield node.asname or node.name
