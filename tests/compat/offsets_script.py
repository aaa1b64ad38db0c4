"""One script of OffsetCommit, OffsetFetch and OffsetDelete, for anything that answers them.

``data/kafka_4_3_1_offsets.jsonl`` holds what Apache Kafka 4.3.1 answered to it, request by request.
Topics are sorted by name, which stands for the id too: Kafka answers in the order of a hash table.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from tests.support.raw import RawClient
from tests.support.requests import request

ANSWERS = Path(__file__).parent / "data" / "kafka_4_3_1_offsets.jsonl"
PATIENCE_S = 60.0
UNKNOWN_ID = UUID(int=77)
NOT_YET = ("coordinator_load_in_progress", "coordinator_not_available", "not_coordinator")
LONG = timedelta(seconds=60)

Wanted = list[tuple[str, list[int]]]
Commits = list[tuple[str, list[tuple[int, int, str | None]]]]


def kafka_answers() -> list[list[Any]]:
    return [json.loads(line) for line in ANSWERS.read_text().splitlines()]


class OffsetScript:
    def __init__(self, bootstrap: str) -> None:
        self._client = RawClient(bootstrap)
        self._ids: dict[str, UUID] = {"unknown id": UNKNOWN_ID}
        self.answers: list[list[Any]] = []

    def close(self) -> None:
        self._client.close()

    def call(self, api: str, version: int, **fields: Any) -> Any:
        return self._client.call(request(api, version, **fields))

    # Before the script

    def prepare(self, *topics: str) -> None:
        self.call(
            "create_topics",
            7,
            topics=[
                {
                    "name": name,
                    "num_partitions": 2,
                    "replication_factor": 1,
                    "assignments": [],
                    "configs": [],
                }
                for name in topics
            ],
            timeout=LONG,
        )
        deadline = time.monotonic() + PATIENCE_S
        while not self._ready(topics):
            assert time.monotonic() < deadline, "no coordinator"
            time.sleep(0.1)

    def _ready(self, topics: Iterable[str]) -> bool:
        for topic in topics:
            wanted = {"name": topic, "topic_id": None}
            answer = self.call(
                "metadata", 12, topics=[wanted], include_topic_authorized_operations=False
            )
            if not answer.topics[0].topic_id:
                return False
            self._ids[topic] = answer.topics[0].topic_id
        found = self.call("find_coordinator", 4, key_type=0, coordinator_keys=["g"])
        if found.coordinators[0].error_code.name in NOT_YET:
            return False
        self._turn_to(found.coordinators[0])
        group = self.call("offset_fetch", 8, groups=[{"group_id": "g", "topics": None}]).groups[0]
        return group.error_code.name not in NOT_YET

    def _turn_to(self, coordinator: Any) -> None:
        """Where there are several brokers, it need not be the first."""
        self._client.close()
        self._client = RawClient(f"{coordinator.host}:{coordinator.port}")

    # Requests

    def commit(
        self,
        version: int,
        group: str,
        topics: Commits,
        *,
        member: str = "",
        epoch: int = -1,
        retention_ms: int | None = None,
    ) -> None:
        extra: dict[str, Any] = {}
        if retention_ms is not None:
            extra["retention_time"] = timedelta(milliseconds=retention_ms)
        answer = self.call(
            "offset_commit",
            version,
            group_id=group,
            member_id=member,
            generation_id_or_member_epoch=epoch,
            topics=[
                {
                    **self._named(topic, version),
                    "partitions": [
                        {
                            "partition_index": index,
                            "committed_offset": offset,
                            "committed_metadata": note,
                            **({"committed_leader_epoch": 5} if version >= 6 else {}),
                        }
                        for index, offset, note in partitions
                    ],
                }
                for topic, partitions in topics
            ],
            **extra,
        )
        self._note(f"commit {version} {group}", None, answer.topics)

    def fetch(
        self,
        version: int,
        group: str,
        topics: Wanted | None,
        *,
        member: str | None = None,
        epoch: int = -1,
    ) -> None:
        wanted = None
        if topics is not None:
            wanted = [
                {**self._named(topic, version), "partition_indexes": indexes}
                for topic, indexes in topics
            ]
        if version < 8:
            answer = self.call("offset_fetch", version, group_id=group, topics=wanted)
        else:
            who = {"member_id": member, "member_epoch": epoch} if version >= 9 else {}
            asked = {"group_id": group, "topics": wanted, **who}
            (answer,) = self.call("offset_fetch", version, groups=[asked]).groups
        self._note(f"fetch {version} {group}", getattr(answer, "error_code", None), answer.topics)

    def delete(self, group: str, topics: Wanted) -> None:
        answer = self.call(
            "offset_delete",
            0,
            group_id=group,
            topics=[
                {"name": topic, "partitions": [{"partition_index": index} for index in indexes]}
                for topic, indexes in topics
            ],
        )
        self._note(f"delete {group}", answer.error_code, answer.topics)

    def _named(self, topic: str, version: int) -> dict[str, Any]:
        return {"topic_id": self._ids[topic]} if version >= 10 else {"name": topic}

    def _note(self, what: str, code: Any, topics: Iterable[Any]) -> None:
        names: dict[Any, str] = {topic_id: name for name, topic_id in self._ids.items()}
        answer = sorted(
            [
                getattr(topic, "name", None) or names.get(getattr(topic, "topic_id", None), ""),
                [_partition(partition) for partition in topic.partitions],
            ]
            for topic in topics
        )
        self.answers.append([what, code.name if code is not None else None, answer])

    # The script

    def run(self) -> list[list[Any]]:
        self.prepare("t", "u")
        self._commits()
        self._fetches()
        self._deletes()
        self._classic_member("classic", _subscription("t"), "consumer")
        self._classic_member("other", b"anything", "not consumers")
        self._consumer_member()
        return self.answers

    def _commits(self) -> None:
        for version in (2, 4, 5, 7, 9):
            self.commit(version, "g", [("t", [(0, version, "m")])])
        self.commit(
            9,
            "g",
            [("t", [(0, 5, "m"), (7, 5, "m"), (-1, 5, "m"), (1, 1, "")]), ("no", [(0, 1, "")])],
        )
        self.commit(9, "g", [("t", [(7, 5, "m")])])
        self.commit(10, "g", [("t", [(0, 50, "m"), (7, 5, "m")]), ("unknown id", [(0, 1, "")])])
        self.commit(10, "g", [("unknown id", [(0, 1, "")])])
        for offset in (-1, -5, 2**63 - 1):
            self.commit(9, "g", [("t", [(0, offset, "m"), (1, 3, None)])])
        self.commit(9, "g", [("t", [(0, 1, "x" * 4097)])])
        self.commit(9, "g", [("t", [(0, 1, "a"), (0, 2, "b")]), ("u", [(1, 9, "")])])
        for name in ("", "a b"):
            self.commit(9, "g", [(name, [(0, 1, "")])])
        self.commit(9, "", [("t", [(0, 1, "")])])
        self.commit(9, "g", [])
        for member, epoch in (("m", 1), ("m", -1), ("", 3)):
            self.commit(9, "memberless", [("t", [(0, 1, "")])], member=member, epoch=epoch)
        self.commit(9, "memberless", [("no", [(0, 1, "")])], member="m", epoch=1)
        self.commit(9, "memberless", [("t", [(9, 1, "")])], member="m", epoch=1)

    def _fetches(self) -> None:
        for version in (1, 2, 5, 7, 8, 9):
            self.fetch(version, "g", [("t", [0, 1, 7, -3]), ("no", [0])])
        for version in (2, 7, 9, 10):
            self.fetch(version, "g", None)
        self.fetch(10, "g", [("t", [0, 1, 7]), ("unknown id", [0]), ("u", [0])])
        for version in (1, 2, 8, 9):
            self.fetch(version, "unknown", [("t", [0])])
        for group in ("unknown", ""):
            self.fetch(9, group, None)
        for group in ("g", "unknown"):
            self.fetch(9, group, [("t", [0])], member="m", epoch=1)
        odd: list[Wanted] = [[("t", [])], [], [("t", [0, 0]), ("t", [0])]]
        for topics in odd:
            self.fetch(9, "g", topics)

    def _deletes(self) -> None:
        for group in ("unknown", ""):
            for topics in ([("t", [0])], [("no", [0])], []):
                self.delete(group, topics)
        self.delete("g", [("t", [7, 1, -1]), ("no", [0])])
        self.delete("g", [])
        self.delete("g", [("u", [0])])
        self.delete("g", [("t", [])])
        self.fetch(9, "g", None)
        self.delete("g", [("t", [0])])
        self.fetch(9, "g", None)

    def _classic_member(self, group: str, metadata: bytes, protocol_type: str) -> None:
        joined = self._join(group, metadata, protocol_type, "")
        if joined.error_code.name == "member_id_required":
            joined = self._join(group, metadata, protocol_type, joined.member_id)
        me, generation = joined.member_id, joined.generation_id
        both: Commits = [("t", [(0, 1, "")]), ("u", [(0, 1, "")])]
        wanted: Wanted = [("t", [0]), ("u", [0]), ("no", [0]), ("t", [9])]
        self.commit(9, group, both, member=me, epoch=generation)
        self.delete(group, wanted)
        self.call(
            "sync_group",
            5,
            group_id=group,
            generation_id=generation,
            member_id=me,
            protocol_type=protocol_type,
            protocol_name="range",
            assignments=[{"member_id": me, "assignment": b""}],
        )
        self.commit(9, group, both, member=me, epoch=generation)
        self.delete(group, wanted)
        self.fetch(9, group, None)
        self.call("leave_group", 5, group_id=group, members=[{"member_id": me}])
        self.delete(group, [("t", [0])])
        self.fetch(9, group, None)

    def _join(self, group: str, metadata: bytes, protocol_type: str, member_id: str) -> Any:
        return self.call(
            "join_group",
            5,
            group_id=group,
            session_timeout=timedelta(seconds=30),
            rebalance_timeout=timedelta(seconds=30),
            member_id=member_id,
            protocol_type=protocol_type,
            protocols=[{"name": "range", "metadata": metadata}],
        )

    def _consumer_member(self) -> None:
        me = str(uuid4())
        joined = self.call(
            "consumer_group_heartbeat",
            1,
            group_id="k",
            member_id=me,
            member_epoch=0,
            rebalance_timeout=LONG,
            subscribed_topic_names=["t"],
            subscribed_topic_regex=None,
            topic_partitions=[],
        )
        epoch = joined.member_epoch
        one: Commits = [("t", [(0, 1, "")])]
        self.commit(
            9, "k", [("t", [(0, 1, ""), (9, 1, "")]), ("u", [(0, 1, "")])], member=me, epoch=epoch
        )
        self.commit(8, "k", one, member=me, epoch=epoch)
        self.commit(9, "k", one, member=me, epoch=epoch + 1)
        self.commit(9, "k", one, member="x", epoch=epoch)
        self.commit(9, "k", one)
        self.delete("k", [("t", [0]), ("u", [0]), ("no", [0])])
        self.fetch(8, "k", None)
        for member, at in ((None, -1), (me, epoch), (me, epoch + 1), ("x", 1)):
            self.fetch(9, "k", None, member=member, epoch=at)
        self.fetch(9, "k", [("t", [0])], member=me, epoch=99)


def _partition(partition: Any) -> list[Any]:
    fields = ("committed_offset", "committed_leader_epoch", "metadata")
    found = [getattr(partition, name) for name in fields if hasattr(partition, name)]
    return [partition.partition_index, *found, partition.error_code.name]


def _subscription(*topics: str) -> bytes:
    """What a consumer says of itself, in the first version of Kafka's format."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)
