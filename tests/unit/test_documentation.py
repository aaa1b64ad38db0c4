"""What docs/architecture.md, the decision records and the promise in docs/operations.md name is
there.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from moldau.testing.simulation.checker import check, offsets, ownership, records, replicas, topics
from moldau.testing.simulation.lives import life

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
DECISIONS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
DECISION_LIST = (ROOT / "docs" / "adr" / "README.md").read_text()

MODULES = sorted(set(re.findall(r"(?<![\w/.>])[\w/]+\.py\b", PAGE)))
FOLDERS = sorted(set(re.findall(r"`((?:\w+/)+)`", PAGE)))
METHODS = sorted(set(re.findall(r"`([A-Z]\w+\.[a-z_]\w*)`", PAGE)))
LINKS = [
    (page, target)
    for page in sorted(ROOT.glob("docs/**/*.md"))
    for target in sorted(set(re.findall(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)", page.read_text())))
]


@cache
def _methods() -> set[str]:
    """Returns every ``Class.method`` of the sources."""
    return {
        f"{node.name}.{item.name}"
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize("name", [*MODULES, *FOLDERS])
def test_what_the_page_names_is_in_the_sources_or_the_tests(name: str) -> None:
    assert any((ROOT / base / name).exists() for base in ("src/moldau", ".")), name


def test_methods_that_the_page_names_exist() -> None:
    assert METHODS
    assert not set(METHODS) - _methods()


@pytest.mark.parametrize(("page", "target"), LINKS, ids=lambda value: getattr(value, "stem", value))
def test_links_between_pages_lead_somewhere(page: Path, target: str) -> None:
    assert (page.parent / target).is_file()


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_has_its_number_and_a_status(path: Path) -> None:
    number = int(path.name[:4])
    title, _, status = path.read_text().split("\n")[:3]
    assert title.startswith(f"# {number}. ")
    assert re.fullmatch(r"Status: (proposed|accepted|superseded by ADR \d+)", status)
    name = title.removeprefix(f"# {number}. ")
    assert f"\n{number}. [{name}]({path.name})\n" in DECISION_LIST


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = [int(path.name[:4]) for path in DECISIONS]
    assert numbers == list(range(1, len(numbers) + 1))


def test_modules_that_decisions_name_exist() -> None:
    named = {
        (path.stem, name)
        for path in DECISIONS
        for name in re.findall(r"`((?:\w+/)+\w+\.py)`", path.read_text())
    }
    bases = ("src/moldau", "src/moldau/client", ".")
    assert not {
        (page, name)
        for page, name in named
        if not any((ROOT / base / name).exists() for base in bases)
    }


INVARIANTS = {
    value
    for module in (check, offsets, ownership, records, replicas, topics)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str)
} | {life.STUCK}


def test_the_promise_names_every_invariant_that_the_simulation_checks_and_no_other() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    promise = page.split("## What a crash can take\n")[1].split("\n## ")[0]
    named = re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", promise)
    assert {" ".join(name.lower().split()) for name in named} == INVARIANTS
