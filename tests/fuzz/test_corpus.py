"""Inputs that fuzzing found worth keeping, with compiled modules and with plain ones."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.fuzz.replay import replay
from tests.fuzz.targets import CORPUS, NAMES, corpus_of, make_target

from moldau.records.native import is_compiled
from moldau.source import VARIABLE

ROOT = CORPUS.parents[2]
MOST_FILES = 200
MOST_BYTES = 200_000


@pytest.mark.parametrize("name", NAMES)
def test_every_input_is_withstood(name: str) -> None:
    assert replay(name, corpus_of(name)) >= 5


@pytest.mark.skipif(not is_compiled(), reason="there is only one way here")
@pytest.mark.parametrize("name", NAMES)
def test_every_input_is_withstood_the_other_way_too(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.replay", name, str(CORPUS / name)],
        cwd=ROOT,
        env={**os.environ, VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"{len(corpus_of(name))} inputs" in done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_what_fuzzing_begins_with_is_withstood(name: str) -> None:
    target = make_target(name)
    try:
        seeds = {*target.seeds()}
        for data in sorted(seeds):
            target.run(data)
    finally:
        target.close()
    assert len(seeds) >= 50


def test_the_corpus_stays_small() -> None:
    sizes = [path.stat().st_size for name in NAMES for path in corpus_of(name)]
    assert len(sizes) <= MOST_FILES
    assert sum(sizes) <= MOST_BYTES
