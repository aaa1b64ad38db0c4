"""What a release is installed with, and how its audit is read."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from tools.audit import judge

ROOT = Path(__file__).parents[2]
PINNED = re.compile(
    r"^([a-z0-9._-]+)==([^ ;\\]+)[^\n]*(?:\n    --hash=sha256:[0-9a-f]{64}[ \\]*)+", re.MULTILINE
)


def requirements() -> list[Requirement]:
    """All that an installation can ask for, but for developers'."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    released = [own for extra, own in extras.items() if extra not in ("dev", "fuzz")]
    lists = [project["dependencies"], *released]
    return [Requirement(text) for each in lists for text in each]


def test_every_dependency_is_pinned_with_hashes() -> None:
    text = (ROOT / "constraints.txt").read_text()
    found = PINNED.findall(text)
    assert len(found) == len(re.findall(r"^[a-z0-9]", text, re.MULTILINE))
    pinned: dict[str, list[Version]] = {}  # some once for each Python
    for name, version in found:
        pinned.setdefault(name, []).append(Version(version))
    for requirement in requirements():
        versions = pinned[canonicalize_name(requirement.name)]
        assert all(requirement.specifier.contains(one) for one in versions), requirement
    assert "http" not in text  # of no address: whoever installs has a registry of his own


def test_kio_has_an_upper_bound() -> None:
    [kio] = [requirement for requirement in requirements() if requirement.name == "kio"]
    assert any(one.operator == "<" for one in kio.specifier)


GOOD = {"name": "rich", "version": "15.0.0", "vulns": []}
BAD = {"name": "rich", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}
UNKNOWN = {"name": "kio", "skip_reason": "Dependency not found on PyPI and could not be audited"}


@pytest.mark.parametrize(
    ("packages", "code", "text"),
    [
        ([GOOD], 0, "1 packages have no known vulnerability"),
        ([GOOD, UNKNOWN], 0, "1 packages have no known vulnerability; NOT AUDITED: kio"),
        ([UNKNOWN], 0, "NOT AUDITED: the registry knows nothing about any of 1 packages"),
        ([GOOD, UNKNOWN, BAD], 1, "rich 1: PYSEC-1 (fixed in 2)"),
    ],
)
def test_reports(packages: list[dict[str, object]], code: int, text: str) -> None:
    assert judge(json.dumps({"dependencies": packages}), "") == (code, text)


def test_no_report() -> None:
    silent = judge("", "Traceback\nrequests.exceptions.ProxyError: Max retries exceeded")
    assert silent.exit_code == 0
    assert silent.text.startswith("NOT AUDITED: no vulnerability service answers here (requests.")
    assert judge("", "usage: pip-audit [-h]").exit_code == 1
    assert judge("", "").exit_code == 1
