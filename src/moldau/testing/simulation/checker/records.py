"""Records: none lost, doubled, reordered, torn, left out, or seen and later gone.

What a crash may take is written in docs/operations.md (and in ``promise.py``): a killed process
loses nothing, a power cut only what was not synced, and of each partition only a tail. Compaction
takes a record only where a later one of its key is there, and leaves every other where it is.
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
SKIPPED = "record left out"
HOLE = "hole in a partition"
UNREAD = "partition not read at the end"


def check_records(history: History) -> Iterator[Violation]:
    by_partition: dict[TopicPartition, list[Send]] = defaultdict(list)
    for send in history.sends.values():
        by_partition[send.partition].append(send)
    sights: dict[TopicPartition, list[Sight]] = defaultdict(list)
    for sight in history.sights:
        sights[sight.partition].append(sight)
    yield from _torn_sights(history)
    for partition, log in history.final_logs.items():
        yield from _torn(history, log)
        yield from _holes(history, log)
        yield from _doubled(history, log)
        yield from _reordered(history, log)
        yield from _lost(history, log, by_partition[partition])
        yield from _gone(history, log, sights[partition])
        yield from _skipped(log, sights[partition])
    for partition, sends in by_partition.items():
        if partition not in history.final_logs and any(s.fate is Fate.DONE for s in sends):
            yield Violation(UNREAD, f"nobody knows what is left of {partition}", partition)


def _torn_sights(history: History) -> Iterator[Violation]:
    for sight in history.sights:
        if sight.id not in history.sends:
            yield Violation(
                TORN,
                f"{sight.reader} was given what nobody sent at offset {sight.offset} of "
                f"{sight.partition}",
                sight.partition,
                sight.at,
            )


def _torn(history: History, log: FinalLog) -> Iterator[Violation]:
    for offset, record in log.records:
        if record not in history.sends:
            yield Violation(
                TORN, f"offset {offset} of {log.partition} holds what nobody sent", log.partition
            )


def _holes(history: History, log: FinalLog) -> Iterator[Violation]:
    """Offsets follow one upon the other from the start to the end, whatever became of a tail.

    Where compaction takes records it leaves holes, and the rest in its order.
    """
    begins = log.start_offset
    expected = begins if begins and history.may_be_deleted(log.partition, begins - 1) else 0
    compacted = history.is_compacted(log.partition)
    for offset in [*(offset for offset, _ in log.records), log.end_offset]:
        if offset < expected if compacted else offset != expected:
            yield Violation(
                HOLE,
                f"{log.partition} goes on at offset {offset} where {expected} should be",
                log.partition,
            )
        expected = offset + 1


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
    compacted = history.is_compacted(log.partition)
    for offset, record in log.records:
        # What a plain producer sent twice may stand twice; its first place counts.
        if record is None or record in seen:
            continue
        send = history.sends.get(record)
        if send is None or not _keeps_its_place(send, compacted):
            continue
        if not send.idempotent and not history.is_promised(send):
            continue  # its first place may have gone with a leader
        if not send.idempotent and log.start_offset and offset != send.offset:
            continue  # what came with it the first time may have been deleted
        seen.add(record)
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


def _keeps_its_place(send: Send, compacted: bool) -> bool:
    """Whether a record may not come after later ones of its producer.

    What a plain producer has given up may still be on an old connection, and be stored when later
    records already are; a broker refuses that of an idempotent one. Where it was stored twice,
    compaction takes the first.
    """
    return send.ordered and (send.idempotent or (send.fate is Fate.DONE and not compacted))


def _lost(history: History, log: FinalLog, sends: list[Send]) -> Iterator[Violation]:
    at = dict(log.records)
    stored = set(at.values())
    newest = _newest(history, log)
    for send in sends:
        if send.fate is not Fate.DONE or not history.is_promised(send):
            continue
        if send.offset < 0:
            if send.key not in newest and not history.may_be_deleted(log.partition, 0):
                yield from _without_offset(history, send, stored)
            continue
        if _is_deleted(history, log, send.offset):
            continue
        found = at.get(send.offset)
        if found == send.id:
            continue
        # What a plain producer sent twice may be left in its second place.
        is_compacted = found is None and newest.get(send.key, -1) > send.offset
        if is_compacted and (send.id not in stored or not send.idempotent):
            continue
        if _may_have_gone(history, log, send.offset, send.heard_at):
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


def _without_offset(
    history: History, send: Send, stored: set[RecordId | None]
) -> Iterator[Violation]:
    """A duplicate of what was stored before a restart has lost its offset, and is there."""
    if not send.idempotent:
        yield Violation(
            INVENTED,
            f"{send.id} of a plain producer was acknowledged without an offset",
            send.partition,
            send.settled_at,
        )
    elif send.id not in stored and not history.cuts_since(send.heard_at):
        yield Violation(
            LOST,
            f"{send.id} was acknowledged as a duplicate and is not there",
            send.partition,
            send.settled_at,
        )


def _gone(history: History, log: FinalLog, sights: list[Sight]) -> Iterator[Violation]:
    at = dict(log.records)
    newest = _newest(history, log)
    for sight in sights:
        send = None if sight.id is None else history.sends.get(sight.id)
        if send is None or _is_deleted(history, log, sight.offset):
            continue
        if sight.offset >= log.end_offset and sight.at >= log.read_at:
            continue
        if sight.offset not in at and newest.get(send.key, -1) > sight.offset:
            continue
        # It may have been fetched at any time since it was sent.
        if at.get(sight.offset) != sight.id and not _may_have_gone(
            history, log, sight.offset, send.at
        ):
            yield Violation(
                GONE,
                f"{sight.reader} was given {sight.id} at offset {sight.offset} of "
                f"{log.partition}, where {at.get(sight.offset) or 'nothing'} is now",
                log.partition,
                sight.at,
            )


def _is_deleted(history: History, log: FinalLog, offset: int) -> bool:
    return offset < log.start_offset and history.may_be_deleted(log.partition, offset)


def _newest(history: History, log: FinalLog) -> dict[bytes | None, int]:
    """Returns the last offset of every key, before which compaction may have taken records."""
    return history.last_offsets(log) if history.is_compacted(log.partition) else {}


def _skipped(log: FinalLog, sights: list[Sight]) -> Iterator[Violation]:
    """Who reads by itself, without a group, is given all that lies before what it was given."""
    given: dict[str, set[tuple[int, RecordId | None]]] = defaultdict(set)
    for sight in sights:
        if not sight.group:
            given[sight.reader].add((sight.offset, sight.id))
    for reader, records in given.items():
        there = [record in records for record in log.records]
        last = max((index for index, has_it in enumerate(there) if has_it), default=0)
        if not all(there[:last]):
            offset, record = log.records[there.index(False)]
            yield Violation(
                SKIPPED,
                f"{reader} was given offset {log.records[last][0]} of {log.partition}, but never "
                f"{record} at offset {offset}",
                log.partition,
            )


def _may_have_gone(history: History, log: FinalLog, offset: int, heard_at: float) -> bool:
    """Whether a power cut since then may have taken a record: with all behind it, never alone.

    So whatever stands at its offset or behind it now must have been stored after such a cut.
    """
    cuts = history.cuts_since(heard_at)
    if not cuts:
        return False
    index = bisect_left(log.records, offset, key=lambda record: record[0])
    later = (history.sends.get(record) for _, record in log.records[index:] if record is not None)
    return all(send is None or _may_follow(send, min(cuts)) for send in later)


def _may_follow(send: Send, cut_at: float) -> bool:
    """Whether a record may have been stored after a cut: it was not acknowledged before it."""
    return send.fate is not Fate.DONE or send.settled_at >= cut_at
