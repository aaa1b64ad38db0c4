"""Looks for inputs that the product does not withstand: ``make fuzz FUZZ_MINUTES=5``.

Each target gets the time it is told, from the inputs in ``corpus``, those made of the schema, and
what earlier runs found worth keeping. What was reached is then replayed with the compiled modules.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.fuzz.targets import CORPUS, NAMES, make_target

from moldau.source import VARIABLE

ROOT: Final = Path(__file__).parents[2]
WORK: Final = ROOT / ".cache" / "fuzz"
SECONDS_PER_INPUT: Final = 60
MEMORY_MB: Final = 2048
FINDING: Final = "finding-"
"""How the names of inputs begin that ``--merge`` keeps, whatever they reach."""
MOST_KEPT: Final = 70
"""Inputs of a target in ``corpus``, the smallest ones, as ``--merge`` writes it."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--minutes", type=float, default=5, help="for each target")
    parser.add_argument("--work", type=Path, default=WORK, help="what is kept between runs")
    parser.add_argument("--merge", action="store_true", help="write the corpus anew; do not fuzz")
    arguments = parser.parse_args()
    unknown = {*arguments.targets} - {*NAMES}
    if unknown:
        parser.error(f"there is no target {', '.join(sorted(unknown))}")
    failed = []
    for name in arguments.targets or NAMES:
        place = Place(name, arguments.work / name)
        place.write_seeds()
        if arguments.merge:
            place.merge()
        elif not place.fuzz(round(arguments.minutes * 60)):
            failed.append(name)
    if failed:
        print(f"FINDINGS: {', '.join(failed)}; the inputs are in {arguments.work}/*/findings")
    return 1 if failed else 0


class Place:
    """The folders of one target."""

    def __init__(self, name: str, work: Path) -> None:
        self.name = name
        self.corpus = CORPUS / name
        self.seeds = work / "seeds"
        self.grown = work / "grown"
        self.findings = work / "findings"
        for folder in (self.corpus, self.seeds, self.grown, self.findings):
            folder.mkdir(parents=True, exist_ok=True)
        self._longest = 0

    def write_seeds(self) -> None:
        target = make_target(self.name)
        self._longest = target.LONGEST_INPUT
        for path in self.seeds.iterdir():
            path.unlink()
        for data in target.seeds():
            (self.seeds / sha256(data).hexdigest()[:16]).write_bytes(data)
        target.close()

    def fuzz(self, seconds: int) -> bool:
        """Returns whether all is well. What was found earlier is among the first inputs."""
        for path in self.findings.iterdir():
            if path.suffix == ".txt":
                path.unlink()
            else:
                shutil.move(path, self.grown / path.name)
        print(f"{self.name}: fuzzing for {seconds} s", flush=True)
        output = self._run(
            [f"-max_total_time={seconds}", "-print_final_stats=1"],
            [self.grown, self.corpus, self.seeds],
        )
        print(f"{self.name}: {_figures(output)}", flush=True)
        found = sorted(path for path in self.findings.iterdir() if path.suffix == ".txt")
        for path in found:
            print(f"{self.name}: {path.with_suffix('')}\n{path.read_text()}")
        return not found and "SUMMARY" not in output and self._replay_compiled()

    def merge(self) -> None:
        """Keep the inputs that together reach what the seeds do not; and what once was found."""
        for path in self._corpus_but_findings():
            shutil.move(path, self.grown / path.name)
        merged = self.grown.parent / "merged"
        shutil.rmtree(merged, ignore_errors=True)
        shutil.copytree(self.seeds, merged)
        self._run(["-set_cover_merge=1", "-use_counters=0"], [merged, self.grown])
        seeds = {path.name for path in self.seeds.iterdir()}
        new = [path for path in merged.iterdir() if path.name not in seeds]
        new.sort(key=lambda path: path.stat().st_size)
        for path in new[:MOST_KEPT]:
            data = path.read_bytes()
            (self.corpus / sha256(data).hexdigest()[:16]).write_bytes(data)
        print(f"{self.name}: {len(new)} inputs reach more than the seeds, {MOST_KEPT} at most stay")

    def _corpus_but_findings(self) -> list[Path]:
        return [path for path in self.corpus.iterdir() if not path.name.startswith(FINDING)]

    def _run(self, options: list[str], folders: Iterable[Path]) -> str:
        command = [
            *(sys.executable, "-m", "tests.fuzz.fuzzing", self.name, str(self.findings)),
            f"-max_len={self._longest}",
            f"-timeout={SECONDS_PER_INPUT}",
            f"-rss_limit_mb={MEMORY_MB}",
            f"-artifact_prefix={self.findings}/",
            *options,
            *map(str, folders),
        ]
        environment = {**os.environ, VARIABLE: "1"}
        with (self.grown.parent / "log").open("w+", encoding="utf-8", errors="replace") as log:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, check=False
            )
            log.seek(0)
            output = log.read()
        if done.returncode:
            print(output[-4000:])
            return output + "SUMMARY"
        return output

    def _replay_compiled(self) -> bool:
        folders = [str(self.corpus), str(self.grown)]
        command = [sys.executable, "-m", "tests.fuzz.replay", self.name, *folders]
        environment = {**os.environ, VARIABLE: "0"}
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def _figures(output: str) -> str:
    """How much was run and reached, as libFuzzer counts it."""
    runs = re.findall(r"stat::number_of_executed_units:\s*(\d+)", output)
    reached = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", output)
    told = [f"{runs[-1]} executions"] if runs else []
    if reached:
        edges, features, inputs = reached[-1]
        told.append(f"{edges} edges, {features} features, {inputs} inputs worth keeping")
    return ", ".join(told) or "nothing was run"


if __name__ == "__main__":
    raise SystemExit(main())
