"""Histories made by hand."""

from __future__ import annotations

from moldau.model import TopicPartition
from moldau.testing.simulation.checker.check import check
from moldau.testing.simulation.checker.crash import Crash
from moldau.testing.simulation.checker.history import (
    Commit,
    CommittedOffset,
    Deletion,
    Fate,
    FinalLog,
    History,
    Ownership,
    RecordId,
    Send,
    Sight,
    TopicAction,
    TopicChange,
    TopicSight,
)

PARTITION = TopicPartition("orders", 0)


class Told:
    """One partition, one group, one topic; times are whatever the test says."""

    def __init__(
        self, *, synced: bool = False, deletes: bool = False, compacts: bool = False
    ) -> None:
        self.history = History(lambda: 0.0, synced_always=synced, retention=deletes)
        if compacts:
            self.history.compacted.add(PARTITION.topic)
        self.history.noting_groups.add("group")

    @property
    def broken(self) -> list[str]:
        """The names of the invariants that do not hold."""
        return [violation.invariant for violation in check(self.history)]

    # Records

    def sent(
        self,
        number: int,
        offset: int = -1,
        *,
        at: float = 1.0,
        acked: float | None = None,
        heard: float | None = None,
        producer: str = "p",
        idempotent: bool = True,
        ordered: bool = True,
        acks: int = -1,
        key: bytes | None = None,
    ) -> RecordId:
        """A record; acknowledged for an offset at a time, or of unknown fate."""
        record = RecordId(producer, number)
        send = Send(record, PARTITION, at, acks, idempotent, ordered, key)
        if acked is not None:
            send.fate, send.offset, send.settled_at = Fate.DONE, offset, acked
            send.heard_at = acked if heard is None else heard
        self.history.sends[record] = send
        return record

    def left(
        self,
        *records: RecordId | None,
        start: int = 0,
        offsets: list[int] | None = None,
        read_at: float = 1000.0,
    ) -> None:
        """What is read at the end."""
        places = list(range(start, start + len(records))) if offsets is None else offsets
        end = places[-1] + 1 if places else start
        self.history.final_logs[PARTITION] = FinalLog(
            PARTITION, start, end, list(zip(places, records, strict=True)), read_at
        )

    def seen(
        self, record: RecordId | None, offset: int, *, at: float = 5.0, group: str = "group"
    ) -> None:
        self.history.sights.append(Sight(at, "reader", group, PARTITION, offset, record))

    def deleted(self, before: int, at: float = 3.0) -> None:
        """Somebody asked for it."""
        self.history.deletions.append(Deletion(PARTITION, before, at))

    def crash(self, at: float, *, power: bool = True) -> None:
        self.history.crashes.append(Crash(at, "broker", power))

    # Groups

    def commit(
        self,
        offset: int,
        at: float,
        done: float | None = None,
        *,
        heard: float | None = None,
        member: str = "m",
    ) -> None:
        """Asked for at a time, acknowledged at another, or of unknown fate."""
        commit = Commit("group", member, PARTITION, offset, at)
        if done is not None:
            commit.fate, commit.settled_at = Fate.DONE, done
            commit.heard_at = done if heard is None else heard
        self.history.commits.append(commit)

    def committed(self, offset: int, asked: float, told: float | None = None) -> None:
        """What the broker says is committed."""
        self.history.committed.append(
            CommittedOffset("group", PARTITION, offset, asked, asked if told is None else told)
        )

    def owned(self, member: str, generation: int, at: float, *, heard: float | None = None) -> None:
        self.history.ownerships.append(
            Ownership("group", member, generation, PARTITION, at, at if heard is None else heard)
        )

    # Topics

    def change(self, action: TopicAction, value: int, at: float, done: float | None = None) -> None:
        change = TopicChange(action, "extra", value, at)
        if done is not None:
            change.fate, change.settled_at = Fate.DONE, done
        self.history.topic_changes.append(change)

    def topic(
        self,
        partitions: int,
        asked: float,
        told: float | None = None,
        *,
        setting: int | None = None,
    ) -> None:
        """What the broker says of the topic; no partitions mean that it does not exist."""
        self.history.topic_sights.append(
            TopicSight(
                "extra", partitions > 0, partitions, setting, asked, asked if told is None else told
            )
        )
