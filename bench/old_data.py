"""A topic with old data, and fetches of it as a consumer sends them."""

from __future__ import annotations

from bench import loads, requests
from bench.targets import Target

TOPIC = "old-data"
RECORDS_PER_BATCH = 16
BATCH = requests.batch_of(RECORDS_PER_BATCH * 1000)
FILL_LIMIT_S = 300


def fill(target: Target, batches: int) -> None:
    requests.create_topic(target.address, TOPIC)
    frame = requests.produce_frame(TOPIC, BATCH)
    loads.run(
        [loads.Load(target.address, [frame], in_flight=5, most=batches)], seconds=FILL_LIMIT_S
    )


def fetch_frames(size: int, batches: int) -> list[bytes]:
    """Fetches one after the other, each from where the last whole batch of the one before ended."""
    step = size // len(BATCH) * RECORDS_PER_BATCH
    last = (batches - 1) * RECORDS_PER_BATCH - 2 * step
    return [requests.fetch_frame(TOPIC, offset, size) for offset in range(0, last, step)]
