"""Whether a Python step's function is there, without running its file."""

from __future__ import annotations

import ast
from pathlib import Path

from moldau.spark.pipeline.problems import did_you_mean


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
    names = {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
    computed = any(not isinstance(one, (ast.FunctionDef, ast.Expr)) for one in tree.body)
    mentioned = any(
        isinstance(one, (ast.Name, ast.alias, ast.ClassDef)) and name in _names(one)
        for one in ast.walk(tree)
    )
    if name in names or mentioned or (computed and not names):
        return None
    return f"{file} has no function {name}: {did_you_mean(name, names)}"


def _names(node: ast.Name | ast.alias | ast.ClassDef) -> tuple[str | None, ...]:
    if isinstance(node, ast.Name):
        return (node.id,)
    return (node.name, node.asname) if isinstance(node, ast.alias) else (node.name,)
