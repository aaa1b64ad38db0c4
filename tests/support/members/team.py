"""The members of one group on one topic, and what must hold for all of them together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from uuid import uuid4

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.members.kinds import HEARTBEAT_MS, SESSION_MS, MemberKind, Place
from tests.support.members.process import WAIT_S, Member

from moldau.client.admin import Admin, ConfigChange, ConfigResource, ResourceType

PARTITIONS = 4


def write(
    bootstrap: str, topic: str, each: int, partitions: int = PARTITIONS
) -> set[tuple[int, int]]:
    """Writes that many records to each partition; partition and offset of all of them."""
    written: set[tuple[int, int]] = set()

    def delivered(error: object, message: Message) -> None:
        assert error is None, error
        written.add((int(message.partition() or 0), int(message.offset() or 0)))

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for partition in range(partitions):
        for number in range(each):
            producer.produce(topic, b"%d" % number, partition=partition, on_delivery=delivered)
    producer.flush(WAIT_S)
    assert len(written) == each * partitions
    return written


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(WAIT_S)


class Team:
    """Starts members, feeds their topic, and compares what they say."""

    def __init__(self, bootstrap: str, directory: Path, partitions: int = PARTITIONS) -> None:
        self.bootstrap = bootstrap
        self.partitions = partitions
        name = uuid4().hex[:8]
        self.topic = f"members-{name}"
        self.group = f"group-{name}"
        self.written: set[tuple[int, int]] = set()
        self.members: list[Member] = []
        self._directory = directory
        create_topic(bootstrap, self.topic, partitions)

    @property
    def everything(self) -> set[int]:
        return set(range(self.partitions))

    @property
    def seen(self) -> Counter[tuple[int, int]]:
        return Counter(record for member in self.members for record in list(member.records))

    def join(
        self,
        kind: MemberKind,
        *,
        session_ms: int = SESSION_MS,
        instance: str | None = None,
        max_poll_ms: int = 300_000,
    ) -> Member:
        place = Place(
            self.bootstrap,
            self.group,
            self.topic,
            self._directory,
            session_ms,
            instance,
            max_poll_ms,
        )
        member = Member(kind.command(place), self._directory / f"member-{len(self.members)}.log")
        self.members.append(member)
        return member

    def shorten_sessions(self, ms: int) -> None:
        """Members under the consumer protocol that fall silent are gone so soon from now on.

        They are given it with their next heartbeat, of which nobody tells: who is killed before
        it is waited for as long as before. Others chose their session when they joined.
        """
        group = ConfigResource(ResourceType.GROUP, self.group)
        change = ConfigChange("consumer.session.timeout.ms", str(ms))
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            (outcome,) = admin.alter_configs({group: [change]})
        outcome.get()
        time.sleep(5 * HEARTBEAT_MS / 1000)

    def write(self, each: int) -> set[tuple[int, int]]:
        fresh = write(self.bootstrap, self.topic, each, self.partitions)
        self.written |= fresh
        return fresh

    def wait_for(self, condition: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
        """Until something about several members has come true."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                stories = "\n--\n".join(member.story() for member in self.members)
                raise AssertionError(f"{what}: did not happen in {timeout_s} s\n{stories}")
            time.sleep(0.02)

    def wait_until_all_is_seen(self) -> None:
        self.wait_for(lambda: self.seen.keys() >= self.written, "all records consumed")

    def check_giving_way(
        self,
        first: Member,
        second: Member,
        stop: Callable[[], object],
        resume: Callable[[], object],
    ) -> None:
        """The second member stops what keeps it in the group: the first has everything until the
        second resumes, and no record is lost.
        """
        stop()
        try:
            self.wait_for(lambda: first.owned == self.everything, "the first takes over")
            self.write(5)
            self.wait_until_all_is_seen()
            self.wait_until_committed(first)
        finally:
            resume()
        self.wait_until_shared(first, second)
        self.write(5)
        self.wait_until_all_is_seen()
        assert self.seen.keys() == self.written

    def wait_until_committed(self, *members: Member) -> None:
        """Until what these members consumed is committed; of a partition that went from one to
        another, by either.
        """

        def committed() -> bool:
            return all(
                any(each.committed.get(partition, 0) > offset for each in members)
                for member in members
                for partition, offset in list(member.records)
            )

        self.wait_for(committed, "everything consumed is committed")

    def wait_until_shared(self, *members: Member) -> None:
        """Until the partitions are shared among exactly these members, as evenly as possible."""
        least, most = self.partitions // len(members), -(-self.partitions // len(members))

        def shared() -> bool:
            owned = [set(member.owned) for member in members]
            return (
                set().union(*owned) == self.everything
                and sum(map(len, owned)) == self.partitions
                and all(least <= len(one) <= most for one in owned)
            )

        self.wait_for(shared, f"{self.partitions} partitions shared by {len(members)}")

    def check_ownership(self, since_ms: int = 0) -> None:
        """No partition belonged to two members at one time, by their own accounts.

        What was over by ``since_ms`` does not count: a member with a short session may have been
        held up for longer than that, and does not know at once that it has lost everything.
        """
        for (a, one), (b, other) in combinations(enumerate(self.members), 2):
            for mine in one.history:
                for theirs in other.history:
                    ended = min(mine.until_ms, theirs.until_ms) < since_ms
                    if mine.partition == theirs.partition and not ended:
                        apart = mine.until_ms <= theirs.since_ms or theirs.until_ms <= mine.since_ms
                        assert apart, (
                            f"members {a} and {b} both owned partition {mine.partition}: "
                            f"{mine}, {theirs}\n{one.story()}\n--\n{other.story()}"
                        )

    def check_all_seen_once(self) -> None:
        seen = self.seen
        assert seen.keys() == self.written
        twice = {record: times for record, times in seen.items() if times > 1}
        assert not twice, twice

    def close(self) -> None:
        for member in self.members:
            member.kill()
