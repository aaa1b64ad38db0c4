"""Any requests in any order, some of which cannot be stored: the log alone says what is stored.

``ShardRunner`` compares the shard with one that has only read the log, after every step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.embedded_protocol import write_assignment
from tests.support.wire import build
from tests.unit.groups.migration.runner import ShardRunner
from tests.unit.groups.migration.scenario import metadata

from moldau.errors import ErrorCode
from moldau.groups.settings import GroupSettings
from moldau.wire.api import ApiKey
from moldau.wire.messages import newest_class

GROUPS = ("g", "h")
TOPICS = ("t", "u")
INSTANCES = (None, None, None, "i", "j")
SESSION_MS = 6000
INITIAL_DELAY_MS = 100


class Script:
    """Numbers choose among what makes sense at the moment, and among what does not."""

    def __init__(self) -> None:
        self.runner = ShardRunner(
            GroupSettings(
                group_initial_rebalance_delay_ms=INITIAL_DELAY_MS,
                group_consumer_assignment_interval_ms=0,
                offsets_retention_ms=60_000,
                offsets_retention_check_interval_ms=20_000,
            ),
            dict.fromkeys(TOPICS, 3),
        )
        self.handed_out: dict[str, list[str]] = {group: [""] for group in GROUPS}

    def step(self, name: str, group_number: int, number: int, fails: bool) -> None:
        self.runner.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS if fails else None
        call: Callable[[str, int], None] = getattr(self, name)
        call(GROUPS[group_number % len(GROUPS)], number)
        self.runner.fail_with = None

    def send(self, api: ApiKey, version: int, group: str, **values: Any) -> Any:
        request = build(newest_class(api, "request"), {"group_id": group, **values})
        return self.runner.answers.get(self.runner.send(api, version, request))

    def member(self, group: str, number: int) -> str:
        known: Mapping[str, Any] = {}
        if (classic := self.runner.classic(group)) is not None:
            known = classic.members
        elif (consumer := self.runner.consumer(group)) is not None:
            known = consumer.members
        ids = [*known, *known, *self.handed_out[group]]
        return ids[number % len(ids)]

    def generation(self, group: str, member_id: str) -> int:
        if (classic := self.runner.classic(group)) is not None:
            return classic.generation
        consumer = self.runner.consumer(group)
        member = None if consumer is None else consumer.members.get(member_id)
        return -1 if member is None else member.epoch

    # What may happen

    def join(self, group: str, number: int) -> None:
        instance_id = INSTANCES[number % len(INSTANCES)]
        member_id = "" if instance_id else self.member(group, number // 7)
        self.send_join(group, member_id, instance_id, number)

    def send_join(self, group: str, member_id: str, instance_id: str | None, number: int) -> None:
        answer = self.send(
            ApiKey.JOIN_GROUP,
            (3, 8, 9)[number % 3],
            group,
            session_timeout=SESSION_MS,
            rebalance_timeout=2 * SESSION_MS,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=[
                {"name": name, "metadata": metadata(TOPICS[number % 2])}
                for name in (("range",), ("sticky", "range"))[number // 2 % 2]
            ],
        )
        if answer is not None and answer.member_id:
            self.handed_out[group].append(answer.member_id)

    def settle(self, group: str, number: int) -> None:
        """The members that are there join again, and their leader divides the work."""
        classic = self.runner.classic(group)
        for member_id in [] if classic is None else [*classic.members]:
            self.rejoin(group, member_id, number)
        self.runner.advance(INITIAL_DELAY_MS)
        self.sync(group, 1)

    def rejoin(self, group: str, member_id: str, number: int) -> None:
        classic = self.runner.classic(group)
        member = None if classic is None else classic.members.get(member_id)
        if member is not None:
            self.send_join(group, member_id, member.instance_id, number)

    def sync(self, group: str, number: int) -> None:
        classic = self.runner.classic(group)
        member_id = self.member(group, number)
        parts = {}
        if classic is not None and classic.leader is not None and number % 3:
            member_id = classic.leader
            parts = {
                other: write_assignment({TOPICS[0]: [index]}, 1)
                for index, other in enumerate(classic.members)
            }
        self.send(
            ApiKey.SYNC_GROUP,
            4,
            group,
            generation_id=self.generation(group, member_id),
            member_id=member_id,
            assignments=[{"member_id": other, "assignment": part} for other, part in parts.items()],
        )

    def heartbeat(self, group: str, number: int) -> None:
        member_id = self.member(group, number)
        generation_id = self.generation(group, member_id)
        self.send(ApiKey.HEARTBEAT, 4, group, generation_id=generation_id, member_id=member_id)

    def leave(self, group: str, number: int) -> None:
        members = [{"member_id": self.member(group, number)}]
        if instance_id := INSTANCES[number % len(INSTANCES)]:
            members.append({"member_id": "", "group_instance_id": instance_id})
        self.send(ApiKey.LEAVE_GROUP, 5, group, members=members)

    def modern_heartbeat(self, group: str, number: int) -> None:
        member_id = self.member(group, number) or f"modern-{number % 3}"
        epoch = self.generation(group, member_id) if number % 2 else 0
        joins: dict[str, Any] = {
            "rebalance_timeout": SESSION_MS,
            "subscribed_topic_names": [TOPICS[number % 2]],
            "topic_partitions": [],
        }
        self.send(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            group,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=INSTANCES[number % len(INSTANCES)],
            **(joins if epoch == 0 else {"topic_partitions": [] if number % 3 else None}),
        )

    def modern_leave(self, group: str, number: int) -> None:
        member_id = self.member(group, number) or "modern-0"
        self.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group, member_id=member_id, member_epoch=-1)

    def commit(self, group: str, number: int) -> None:
        member_id = self.member(group, number) if number % 2 else ""
        partition = {"partition_index": number % 3, "committed_offset": number}
        self.send(
            ApiKey.OFFSET_COMMIT,
            9,
            group,
            member_id=member_id,
            generation_id_or_member_epoch=self.generation(group, member_id) if member_id else -1,
            topics=[
                {
                    "name": TOPICS[number % 2],
                    "partitions": [{**partition, "committed_metadata": ""}],
                }
            ],
        )

    def delete(self, group: str, _number: int) -> None:
        runner = self.runner
        runner.act(runner.shard.delete_group(group, runner.new_token(), runner.now_ms))

    def recreate_topic(self, _group: str, number: int) -> None:
        topics, name = self.runner.topics, TOPICS[number % 2]
        topic_id = topics.topic_id(name)
        assert topic_id is not None
        topics.remove(name)
        topics.set(name, 3)
        shard, now_ms = self.runner.shard, self.runner.now_ms
        self.runner.act(shard.on_topics_changed([name], now_ms))
        self.runner.act(shard.on_topics_removed([(name, topic_id)], now_ms))

    def wait(self, _group: str, number: int) -> None:
        self.runner.advance((100, 600, SESSION_MS, 3 * SESSION_MS)[number % 4])

    def restart(self, _group: str, _number: int) -> None:
        self.runner.restart()


STEPS = ["join"] * 5 + ["settle"] * 4 + ["sync", "sync"] + ["wait"] * 3 + [
    "heartbeat",
    "leave",
    "leave",
    "modern_heartbeat",
    "modern_heartbeat",
    "modern_leave",
    "commit",
    "commit",
    "delete",
    "recreate_topic",
    "restart",
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(STEPS),
            st.sampled_from([0, 0, 0, 1]),
            st.integers(0, 99),
            st.sampled_from([False] * 5 + [True]),
        ),
        max_size=60,
    )
)
def test_what_is_stored_is_what_the_log_says(steps: list[tuple[str, int, int, bool]]) -> None:
    script = Script()
    for step in steps:
        script.step(*step)
