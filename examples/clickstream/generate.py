"""Clicks as browsers send them: a line of JSON each, some of them late, twice, wrong or torn apart.

python generate.py --clicks 5000 --rate 100 | moldau produce clicks
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

PAGES = ("/", "/shop", "/shop/boats", "/shop/oars", "/basket", "/help")
VISITORS = 25
LATE_MS = 120_000
"""Clicks come out of order by so much."""


def clicks(rng: random.Random, names: Iterator[str], now: Iterator[int]) -> Iterator[bytes]:
    """Without an end; ``now`` is when each of them is sent, in milliseconds."""
    sent: list[bytes] = []
    for name, moment in zip(names, now, strict=False):
        chance = rng.random()
        if chance < 0.05 and sent:
            yield rng.choice(sent)  # once more
            continue
        one = click(rng, name, moment)
        if chance < 0.07:
            one.update(
                rng.choice(({"cents": -1}, {"page": None}, {"time": "2999-12-31T00:00:00Z"}))
            )
        text = json.dumps(one).encode()
        if chance > 0.97:
            yield rng.choice(
                (text[: len(text) // 2], text.replace(b'"cents": ', b'"cents": "?", "was": '))
            )
            continue
        sent = [*sent[-20:], text]
        yield text


def click(rng: random.Random, name: str, moment: int) -> dict[str, Any]:
    page = rng.choice(PAGES)
    return {
        "id": name,
        "visitor": f"v{int(VISITORS * rng.random() ** 2)}",  # some come often
        "page": page,
        "cents": rng.randrange(100, 100_000) if page == "/basket" else 0,
        "time": iso(moment - int(LATE_MS * rng.random() ** 4)),
    }


def iso(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="milliseconds")


def main() -> None:
    parser = argparse.ArgumentParser(description="Prints clicks, as lines of JSON.")
    parser.add_argument("--clicks", type=int, default=1000, help="how many (default: %(default)s)")
    parser.add_argument("--rate", type=float, help="in a second; default: as fast as possible")
    parser.add_argument("--seed", type=int, default=1, help="others give other clicks")
    given = parser.parse_args()
    begin = time.time()

    def moments() -> Iterator[int]:
        for number in range(given.clicks):
            if given.rate:
                time.sleep(max(0.0, begin + number / given.rate - time.time()))
            yield int(time.time() * 1000)

    names = (f"{given.seed}-{int(begin)}-{number}" for number in range(given.clicks))
    for one in clicks(random.Random(given.seed), names, moments()):
        sys.stdout.buffer.write(one + b"\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
