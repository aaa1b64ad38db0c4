"""Runs lives, as many as told, on all cores; or one again, with its story.

    python -m moldau.testing.simulation --lives 1000
    python -m moldau.testing.simulation --minutes 10 --first 5000
    python -m moldau.testing.simulation --replay 4711
    python -m moldau.testing.simulation --cluster --lives 1000

A life that breaks a promise is told by its seed; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import sys

from moldau.testing.simulation.running import Summary, replay, run_lives


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m moldau.testing.simulation")
    parser.add_argument("--cluster", action="store_true", help="of three brokers, not of one")
    parser.add_argument("--lives", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--minutes", type=float, help="run for so long instead")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--jobs", type=int, help="processes (default: one for each core)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="tell the story of one life")
    parser.add_argument("--all", action="store_true", help="with --replay: every event")
    options = parser.parse_args()
    if options.replay is not None:
        return replay(options.replay, everything=options.all, cluster=options.cluster)
    summary: Summary = run_lives(
        options.first,
        options.lives,
        minutes=options.minutes,
        jobs=options.jobs,
        cluster=options.cluster,
    )
    return 1 if summary.failed else 0


if __name__ == "__main__":
    sys.exit(main())
