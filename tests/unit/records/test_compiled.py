"""The per-record modules run compiled and plain, and the whole directory is tested both ways."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from tests.unit.records.strategies import INNER_RUN

import moldau.records
from moldau.records.native import is_compiled
from moldau.records.source import VARIABLE

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PACKAGE = Path(moldau.records.__file__).parent
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
COMPILED = re.findall(r'"src/moldau/records/(\w+)\.py"', (ROOT / "setup.py").read_text())

PLAIN_WANTED = os.environ.get(VARIABLE, "0") not in ("", "0")
installed = [name for name in COMPILED if (PACKAGE / f"{name}{SUFFIX}").exists()]
needs_compiled = pytest.mark.skipif(
    not installed, reason="moldau was installed without compiled modules (no C compiler?)"
)


def test_all_or_none_of_the_modules_are_compiled() -> None:
    assert len(COMPILED) >= 5
    assert installed in ([], COMPILED)


def test_the_modules_run_the_way_the_environment_says() -> None:
    compiled_wanted = bool(installed) and not PLAIN_WANTED
    for name in COMPILED:
        file = importlib.import_module(f"moldau.records.{name}").__file__
        assert file == str(PACKAGE / (name + (SUFFIX if compiled_wanted else ".py")))
    assert is_compiled() is compiled_wanted


def test_compiling_needs_no_types_of_other_packages() -> None:
    """pip builds where none of them is installed; what mypyc cannot resolve it does not compile."""
    modules = re.findall(r'"(src/moldau/\w+/[\w/]+\.py)"', (ROOT / "setup.py").read_text())
    options = ["--config-file=", "--ignore-missing-imports", "--no-site-packages"]
    command = [sys.executable, "-m", "mypy", "--cache-dir=/dev/null", *options, *modules]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@needs_compiled
@pytest.mark.skipif(
    PACKAGE != ROOT / "src/moldau/records", reason="installed from a wheel, which has no ages"
)
def test_the_compiled_modules_are_those_of_the_sources() -> None:
    for name in COMPILED:
        source, library = PACKAGE / f"{name}.py", PACKAGE / f"{name}{SUFFIX}"
        assert source.stat().st_mtime <= library.stat().st_mtime, (
            f"{source.name} has changed since it was compiled: pip install -e ."
        )


@needs_compiled
@pytest.mark.skipif(INNER_RUN in os.environ, reason="this is the run the other way")
def test_everything_holds_the_other_way_too() -> None:
    environment = {**os.environ, VARIABLE: "0" if PLAIN_WANTED else "1", INNER_RUN: "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout)
    assert "failed" not in done.stdout
