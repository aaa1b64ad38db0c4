"""``python -m bench.flame``: where a broker's time goes, as flame graphs in docs/pictures.

py-spy looks at the broker while a load runs on it, at machine code too. It needs the right to look
at another process: root, or ``kernel.yama.ptrace_scope=0``.
"""

from __future__ import annotations

import argparse
import subprocess
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import measuring, requests
from bench.flame_svg import draw
from bench.old_data import fetch_frames, fill
from bench.page import PICTURES
from bench.targets import Moldau, Target, brokers

OLD_BATCHES = 4000
WARMING_S = 1.0
EVENT_LOOP = "uv_run (core.c);"
LEAD_S = 3.0
"""How much longer than py-spy, which takes its time to begin, the load goes on."""


def _produce(target: Target, seconds: float) -> None:
    batch = requests.batch_of(100)
    measuring.produce(target, batch, records=1, in_flight=16, seconds=seconds)


def _fetch(target: Target, seconds: float) -> None:
    size = 1 << 16
    measuring.fetch(target, fetch_frames(size, OLD_BATCHES), size=size, seconds=seconds)


GRAPHS: dict[str, tuple[str, Callable[[Target, float], None]]] = {
    "produce": ("Produce: 1 record, 16 in flight", _produce),
    "fetch": ("Fetch: 64 KB, one at a time", _fetch),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.flame", description=__doc__)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rate", type=int, default=250, help="samples a second")
    parser.add_argument("--into", type=Path, default=PICTURES, metavar="DIRECTORY")
    options = parser.parse_args()
    with brokers([Moldau]) as (target,):
        target.start()
        fill(target, OLD_BATCHES)
        for name, (title, load) in GRAPHS.items():
            load(target, WARMING_S)
            stacks = _watch(target, load, options.seconds, options.rate)
            picture = options.into / f"flame-{name}.svg"
            picture.write_text(draw(title, _in_the_loop(stacks)))
            print(picture)


def _watch(
    target: Target, load: Callable[[Target, float], None], seconds: int, rate: int
) -> list[str]:
    """Returns the stacks that were seen, each with its number of samples."""
    py_spy = Path(sysconfig.get_path("scripts"), "py-spy")
    with TemporaryDirectory(prefix="moldau-bench-") as directory:
        stacks = Path(directory, "stacks")
        command = [py_spy, "record", "--pid", target.pid, "--output", stacks]
        command += ["--format", "raw", "--nolineno", "--native"]
        command += ["--rate", rate, "--duration", seconds]
        spy = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
        load(target, seconds + LEAD_S)
        if spy.wait():
            raise SystemExit("py-spy has failed")
        return stacks.read_text().splitlines()


def _in_the_loop(stacks: Iterable[str]) -> Iterator[str]:
    """What the event loop does, without what led to it and without threads that wait."""
    for stack in stacks:
        _, loop, inside = stack.partition(EVENT_LOOP)
        if loop:
            yield inside


if __name__ == "__main__":
    main()
