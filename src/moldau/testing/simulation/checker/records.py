"""Records: none lost, doubled, reordered, torn, or seen and later gone.

What a crash may take is written in docs/operations.md: a killed process loses nothing, a power cut
only what was not synced, and of each partition only a tail.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from moldau.model import TopicPartition
from moldau.testing.simulation.checker.history import (
    Fate,
    FinalLog,
    History,
    RecordId,
    Send,
    Sight,
)
from moldau.testing.simulation.checker.violation import Violation

LOST = "acknowledged record lost"
DOUBLED = "record doubled"
REORDERED = "records reordered"
TORN = "record torn"
GONE = "record seen and later gone"
INVENTED = "offset told for another record"


def check_records(history: History) -> Iterator[Violation]:
    by_partition: dict[TopicPartition, list[Send]] = defaultdict(list)
    for send in history.sends.values():
        by_partition[send.partition].append(send)
    sights: dict[TopicPartition, list[Sight]] = defaultdict(list)
    for sight in history.sights:
        sights[sight.partition].append(sight)
    for partition, log in history.final_logs.items():
        yield from _torn(log, sights[partition])
        yield from _doubled(history, log)
        yield from _reordered(history, log)
        yield from _lost(history, log, by_partition[partition])
        yield from _gone(history, log, sights[partition])


def _torn(log: FinalLog, sights: list[Sight]) -> Iterator[Violation]:
    for offset, record in log.records:
        if record is None:
            yield Violation(
                TORN, f"offset {offset} of {log.partition} holds what nobody sent", log.partition
            )
    for sight in sights:
        if sight.id is None:
            yield Violation(
                TORN,
                f"{sight.reader} was given what nobody sent at offset {sight.offset} of "
                f"{log.partition}",
                log.partition,
                sight.at,
            )


def _doubled(history: History, log: FinalLog) -> Iterator[Violation]:
    first: dict[RecordId, int] = {}
    for offset, record in log.records:
        if record is None:
            continue
        if record in first:
            send = history.sends.get(record)
            if send is not None and send.idempotent:
                yield Violation(
                    DOUBLED,
                    f"{record} of an idempotent producer is at offsets {first[record]} and "
                    f"{offset} of {log.partition}",
                    log.partition,
                    send.at,
                )
        else:
            first[record] = offset


def _reordered(history: History, log: FinalLog) -> Iterator[Violation]:
    highest: dict[str, RecordId] = {}
    seen: set[RecordId] = set()
    for offset, record in log.records:
        # What a plain producer sent twice may stand twice; its first place counts.
        if record is None or record in seen:
            continue
        seen.add(record)
        send = history.sends.get(record)
        if send is None or not send.ordered:
            continue
        before = highest.get(record.producer)
        if before is not None and before.number > record.number:
            yield Violation(
                REORDERED,
                f"{record} at offset {offset} of {log.partition} comes after {before}",
                log.partition,
                send.at,
            )
        else:
            highest[record.producer] = record


def _lost(history: History, log: FinalLog, sends: list[Send]) -> Iterator[Violation]:
    at = dict(log.records)
    stored = set(at.values())
    for send in sends:
        if send.fate is not Fate.DONE or send.acks == 0:
            continue
        if send.offset < 0:
            # A duplicate of something that was stored before a restart: it is there, somewhere.
            if send.id not in stored and not history.may_have_lost(send.settled_at):
                yield Violation(
                    LOST, f"{send.id} was acknowledged without an offset and is not there",
                    send.partition, send.settled_at,
                )  # fmt: skip
            continue
        if send.offset < log.start_offset:
            continue
        found = at.get(send.offset)
        if found == send.id:
            continue
        if _may_have_gone(history, log, send.offset, send.settled_at):
            continue
        what = "nothing" if found is None else str(found)
        name = INVENTED if send.id in stored else LOST
        yield Violation(
            name,
            f"{send.id} was acknowledged for offset {send.offset} of {send.partition}, where "
            f"{what} is now",
            send.partition,
            send.settled_at,
        )


def _gone(history: History, log: FinalLog, sights: list[Sight]) -> Iterator[Violation]:
    at = dict(log.records)
    for sight in sights:
        if sight.id is None or sight.offset < log.start_offset:
            continue
        send = history.sends.get(sight.id)
        fetched_after = 0.0 if send is None else send.at
        if at.get(sight.offset) != sight.id and not _may_have_gone(
            history, log, sight.offset, fetched_after
        ):
            yield Violation(
                GONE,
                f"{sight.reader} was given {sight.id} at offset {sight.offset} of "
                f"{log.partition}, where {at.get(sight.offset) or 'nothing'} is now",
                log.partition,
                sight.at,
            )


def _may_have_gone(history: History, log: FinalLog, offset: int, known_at: float) -> bool:
    """Whether a power cut since then may have taken a record: a tail, never one from the middle.

    What stands before the offset and is older must have gone, or stayed, with it: a record that
    was stored after the cut in the same place shows that the tail was cut off there.
    """
    if not history.may_have_lost(known_at):
        return False
    # Whatever is at this offset or behind it now was written after the cut.
    index = bisect_left(log.records, offset, key=lambda record: record[0])
    for _, later in log.records[index:]:
        send = None if later is None else history.sends.get(later)
        if send is None:
            continue
        if not any(
            crash.power and known_at <= crash.at and send_may_follow(send, crash.at)
            for crash in history.crashes
        ):
            return False
    return True


def send_may_follow(send: Send, cut_at: float) -> bool:
    """Whether a record may have been stored after a cut: it was not acknowledged before it."""
    return send.fate is not Fate.DONE or send.settled_at >= cut_at
