"""The modules that setup.py compiles run as machine code or as sources, all of them, as the
environment says; and what the path of requests is made of is tested both ways.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import moldau
from moldau.source import VARIABLE

ROOT = Path(__file__).parents[2]
SOURCES = Path(moldau.__file__).parents[1]
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
MODULES = re.findall(r'"src/(moldau/[\w/]+)\.py"', (ROOT / "setup.py").read_text())
INNER_RUN = "MOLDAU_TESTED_THE_OTHER_WAY"

PLAIN_WANTED = os.environ.get(VARIABLE, "0") not in ("", "0")
installed = [module for module in MODULES if Path(SOURCES, module + SUFFIX).exists()]
needs_compiled = pytest.mark.skipif(
    not installed, reason="moldau was installed without compiled modules (no C compiler?)"
)

PATH_OF_REQUESTS = (
    "broker/handlers/test_records.py",
    "broker/handlers/test_session_answers.py",
    "broker/test_fetch_sessions.py",
    "broker/test_pipelines.py",
    "broker/test_router.py",
    "log/partition",
    "log/segment",
    "machine/test_outgoing.py",
    "machine/test_transport.py",
    "net",
    "replication",
    "wire/test_fetch.py",
    "wire/test_headers.py",
    "wire/test_produce.py",
)


def test_all_or_none_of_the_modules_are_compiled() -> None:
    assert len(MODULES) >= 40
    assert installed in ([], MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_runs_the_way_the_environment_says(module: str) -> None:
    compiled_wanted = bool(installed) and not PLAIN_WANTED
    file = importlib.import_module(module.replace("/", ".")).__file__
    assert file == str(SOURCES / (module + (SUFFIX if compiled_wanted else ".py")))


def test_compiling_needs_no_types_of_other_packages() -> None:
    """pip builds where none of them is installed; what mypyc cannot resolve it does not compile."""
    options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
    options.append("--no-site-packages")
    modules = [f"src/{module}.py" for module in MODULES]
    command = [sys.executable, "-m", "mypy", "--cache-dir=/dev/null", *options, *modules]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@needs_compiled
@pytest.mark.skipif(SOURCES != ROOT / "src", reason="installed from a wheel, which has no ages")
def test_the_compiled_modules_are_those_of_the_sources() -> None:
    library = SOURCES / f"moldau__mypyc{SUFFIX}"
    changed = [
        module
        for module in MODULES
        if Path(SOURCES, module + ".py").stat().st_mtime > library.stat().st_mtime
    ]
    assert not changed, "these have changed since they were compiled: pip install -e ."


@needs_compiled
@pytest.mark.skipif(INNER_RUN in os.environ, reason="this is the run the other way")
def test_the_path_of_requests_works_the_other_way_too() -> None:
    here = Path(__file__).parent
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            __file__,
            *(str(here / name) for name in PATH_OF_REQUESTS),
        ],
        cwd=ROOT,
        env={**os.environ, VARIABLE: "0" if PLAIN_WANTED else "1", INNER_RUN: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert re.search(r"\d+ passed", done.stdout)
