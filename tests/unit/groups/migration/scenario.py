"""One script of requests to groups that change their kind, for anything that answers them.

``data/kafka_4_3_1_<policy>.jsonl`` holds what Apache Kafka 4.3.1 answered to it under each
``group.consumer.migration.policy``, request by request (member ids replaced by M0, M1 … in the
order of their appearance). ``settings`` are the settings that the script counts on, and a topic
``t`` with four partitions and a topic ``u`` with one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import pack
from typing import Any
from uuid import UUID

from tests.support.embedded_protocol import read_assignment, write_assignment
from tests.support.wire import build
from tests.unit.groups.classic import scenario as classic
from tests.unit.groups.classic.scenario import Answer, Call, Caller

from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey
from moldau.wire.messages import newest_class

POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
TOPICS = {"t": 4, "u": 1}
REBALANCE_MS = classic.REBALANCE_MS
SESSION_MS = classic.SESSION_MS
RANGE = "range"
EVERYTHING = {"t": [0, 1, 2, 3]}


def settings(policy: str) -> dict[str, str]:
    return {
        "group.initial.rebalance.delay.ms": "500",
        "group.consumer.migration.policy": policy,
        "group.consumer.assignors": RANGE,
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": "4000",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "500",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
    }


def kafka_answers(policy: str) -> list[Answer]:
    file = Path(__file__).parent / "data" / f"kafka_4_3_1_{policy}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]


DEVIATIONS: dict[tuple[str, str], list[Any]] = {
    # Kafka tells classic members to join again once somebody under the consumer protocol has made
    # a target assignment. When they are among themselves nobody does: what the last one had would
    # be read by nobody.
    ("upgrade", "hb after"): ["REBALANCE_IN_PROGRESS"],
}


def moldau_answers(policy: str) -> list[Answer]:
    return [
        [label, DEVIATIONS.get((policy, label), values)] for label, values in kafka_answers(policy)
    ]


def metadata(
    *topics: str, owned: Mapping[str, Sequence[int]] | None = None, version: int = 1
) -> bytes:
    """A consumer's subscription; with ``owned`` that of a cooperative one."""
    names = b"".join(pack(">h", len(name)) + name.encode() for name in topics)
    held = b"".join(
        pack(">h", len(name)) + name.encode() + pack(f">i{len(p)}i", len(p), *p)
        for name, p in (owned or {}).items()
    )
    rest = pack(">i", len(owned or {})) + held if version else b""
    return pack(">hi", version, len(topics)) + names + pack(">i", -1) + rest


class Script(classic.Script):
    """Adds the consumer protocol and administration to the requests of the classic script."""

    def __init__(self, caller: Caller, topic_ids: Mapping[str, UUID]) -> None:
        super().__init__(caller)
        self._topic_ids = topic_ids

    def call(self, api: ApiKey, version: int, **values: Any) -> Call:
        return self.caller.send(api, version, build(newest_class(api, "request"), values))

    # -- requests --------------------------------------------------------------------------------

    def beat(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        *,
        owned: Mapping[str, Sequence[int]] | None = None,
        topics: Sequence[str] | None = None,
        instance_id: str | None = None,
    ) -> Call:
        fields: dict[str, Any] = {}
        if owned is not None:
            fields["topic_partitions"] = [
                {"topic_id": self._topic_ids[name], "partitions": held}
                for name, held in owned.items()
            ]
        if topics is not None:
            fields |= {"subscribed_topic_names": topics, "rebalance_timeout": REBALANCE_MS}
        return self.call(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance_id,
            **fields,
        )

    def consumer_join(self, group_id: str, member_id: str, instance_id: str | None = None) -> Call:
        return self.beat(group_id, member_id, 0, owned={}, topics=["t"], instance_id=instance_id)

    def commit(
        self, group_id: str, member_id: str, epoch: int, partition: int = 0, version: int = 8
    ) -> Call:
        one = {"partition_index": partition, "committed_offset": 7, "committed_metadata": ""}
        return self.call(
            ApiKey.OFFSET_COMMIT,
            version,
            group_id=group_id,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            topics=[{"name": "t", "partitions": [one]}],
        )

    def fetch(self, group_id: str, member_id: str | None = None, epoch: int = -1) -> Call:
        wanted = [{"name": "t", "partition_indexes": [0]}]
        group = {"group_id": group_id, "topics": wanted, "member_id": member_id}
        return self.call(
            ApiKey.OFFSET_FETCH,
            9,
            groups=[{**group, "member_epoch": epoch}],
            require_stable=False,
        )

    # -- larger moves ----------------------------------------------------------------------------

    def member_of_one(
        self, group_id: str, data: bytes, assignment: bytes, protocol: str = RANGE
    ) -> str:
        """A classic group with one member in its first generation."""
        protocols = ((protocol, data),)
        member_id: str = self.join(group_id, protocols=protocols).get().member_id
        self.name(member_id)
        self.join(group_id, member_id, protocols=protocols).get()
        parts = {member_id: assignment}
        self.sync(group_id, member_id, 1, parts=parts, protocol=protocol).get()
        return member_id

    def eager(self, group_id: str) -> str:
        return self.member_of_one(group_id, metadata("t"), write_assignment(EVERYTHING, 1))

    def show(self, label: str, group_id: str) -> None:
        """What administrators see of a group."""
        listed = self.call(ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=[]).get().groups
        self.add(
            f"{label}: listed",
            *[
                [one.group_type, one.group_state, one.protocol_type]
                for one in listed
                if one.group_id == group_id
            ],
        )
        for version in (5, 6):
            (one,) = self.call(ApiKey.DESCRIBE_GROUPS, version, groups=[group_id]).get().groups
            self.add(
                f"{label}: described v{version}",
                one.error_code.name,
                one.group_state,
                one.protocol_type,
                one.protocol_data,
                sorted(
                    [self.name(m.member_id), m.group_instance_id, held(m.member_assignment)]
                    for m in one.members
                ),
            )
        self._show_consumer(label, group_id)

    def _show_consumer(self, label: str, group_id: str) -> None:
        answer = self.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[group_id]).get()
        (one,) = answer.groups
        self.add(
            f"{label}: described as consumer group",
            one.error_code.name,
            one.group_state,
            one.group_epoch,
            one.assignment_epoch,
            one.assignor_name,
            sorted(
                [
                    self.name(m.member_id),
                    m.instance_id,
                    m.member_epoch,
                    m.member_type,
                    list(m.subscribed_topic_names),
                    m.subscribed_topic_regex,
                    by_name(m.assignment.topic_partitions),
                    by_name(m.target_assignment.topic_partitions),
                ]
                for m in one.members
            ),
        )

    # -- answers ---------------------------------------------------------------------------------

    def note(self, label: str, call: Call) -> None:
        response = call.get()
        match type(response).__name__:
            case "SyncGroupResponse":
                self.add(
                    label,
                    response.error_code.name,
                    response.protocol_type,
                    response.protocol_name,
                    held(response.assignment),
                )
            case "ConsumerGroupHeartbeatResponse":
                self._note_beat(label, response)
            case "OffsetCommitResponse":
                codes = [p.error_code.name for topic in response.topics for p in topic.partitions]
                self.add(label, *codes)
            case "OffsetFetchResponse":
                (group,) = response.groups
                offsets = [p.committed_offset for topic in group.topics for p in topic.partitions]
                self.add(label, group.error_code.name, offsets)
            case "DeleteGroupsResponse":
                self.add(label, *[one.error_code.name for one in response.results])
            case _:
                super().note(label, call)

    def _note_beat(self, label: str, response: Any) -> None:
        assigned = None
        if response.assignment is not None:
            names = {topic_id: name for name, topic_id in self._topic_ids.items()}
            assigned = {
                names[topic.topic_id]: sorted(topic.partitions)
                for topic in response.assignment.topic_partitions
            }
        self.add(
            label,
            response.error_code.name,
            self.name(response.member_id or ""),
            response.member_epoch,
            assigned,
        )


def held(assignment: bytes) -> Any:
    if not assignment:
        return None
    found = read_assignment(assignment)
    version = int.from_bytes(assignment[:2], "big")
    return [version, {name: sorted(found[name]) for name in sorted(found)}]


def by_name(topics: Any) -> dict[str, list[int]]:
    return {topic.topic_name: sorted(topic.partitions) for topic in topics}


# -- the script ----------------------------------------------------------------------------------


def run(script: Script) -> list[Answer]:
    eager_member(script)
    cooperative_member(script)
    static_members(script)
    parked_requests(script)
    unfit_groups(script)
    newcomers(script)
    departures(script)
    classic_joins_consumer(script)
    timeouts(script)
    return script.answers


def eager_member(s: Script) -> None:
    g = "eager"
    a = s.eager(g)
    s.note("commit classic", s.commit(g, a, 1))
    s.note("beat no member", s.beat(g, "~c", 5))
    s.note("leave no member", s.beat(g, "~c", -1))
    s.note("bad join", s.beat(g, "~c", 0, owned={}))
    s.note("upgrade", s.consumer_join(g, "~c"))
    s.show("upgraded", g)
    s.note("hb told", s.heartbeat(g, a, 1))
    s.note("sync told", s.sync(g, a, 1))
    s.note("commit", s.commit(g, a, 1, 3))
    s.note("commit older", s.commit(g, a, 0))
    s.note("commit newer", s.commit(g, a, 7))
    s.note("commit v9", s.commit(g, a, 1, version=9))
    s.note("commit consumer v8", s.commit(g, "~c", 2, 3))
    s.note("hb other generation", s.heartbeat(g, a, 2))
    s.note("hb ghost", s.heartbeat(g, "ghost", 1))
    s.note("hb instance", s.heartbeat(g, a, 1, "x"))
    s.note("hb consumer", s.heartbeat(g, "~c", 2))
    s.note("sync consumer", s.sync(g, "~c", 2))
    s.note("rejoin", s.join(g, a, protocols=[(RANGE, metadata("t"))]))
    s.note("sync protocol", s.sync(g, a, 2, protocol="x"))
    s.note("sync type", s.sync(g, a, 2, protocol_type="x"))
    s.note("sync none", s.sync(g, a, 2, protocol=None))
    s.note("hb before sync", s.heartbeat(g, a, 2))
    s.note("sync old", s.sync(g, a, 1))
    s.note("sync v4", s.sync(g, a, 2, protocol=None, protocol_type=None, version=4))
    s.note("sync", s.sync(g, a, 2))
    s.note("hb", s.heartbeat(g, a, 2))
    s.note("beat", s.beat(g, "~c", 2))
    s.note("beat owned", s.beat(g, "~c", 2, owned={"t": [2, 3]}))
    s.note("commit behind kept", s.commit(g, a, 1, 0))
    s.note("commit behind lost", s.commit(g, a, 1, 3))
    s.note("fetch", s.fetch(g))
    s.note("fetch member", s.fetch(g, a, 2))
    s.note("fetch member old", s.fetch(g, a, 1))
    s.note("delete", s.call(ApiKey.DELETE_GROUPS, 2, groups_names=[g]))
    s.show("settled", g)
    s.note("consumer leaves", s.beat(g, "~c", -1))
    s.show("downgraded", g)
    s.note("hb after", s.heartbeat(g, a, 2))
    s.note("commit after", s.commit(g, a, 2))
    s.note("beat after", s.beat(g, "~c", 2))
    s.note("rejoin after", s.join(g, a, protocols=[(RANGE, metadata("t"))]))
    s.note("fetch after", s.fetch(g))


def cooperative_member(s: Script) -> None:
    g, name = "cooperative", "cooperative-sticky"

    data = metadata("t", owned={}, version=1)
    a = s.member_of_one(g, data, write_assignment(EVERYTHING, 1), name)
    s.note("coop upgrade", s.consumer_join(g, "~c"))
    s.note("coop hb", s.heartbeat(g, a, 1))
    rejoin = [(name, metadata("t", owned=EVERYTHING))]
    s.note("coop rejoin", s.join(g, a, protocols=rejoin))
    s.note("coop sync", s.sync(g, a, 1, protocol=name))
    s.note("coop hb revoking", s.heartbeat(g, a, 1))
    s.show("revoking", g)
    s.note("coop rejoin same", s.join(g, a, protocols=rejoin))
    s.note("coop sync same", s.sync(g, a, 1, protocol=name))
    s.note("coop beat early", s.beat(g, "~c", 2))
    revoked = [(name, metadata("t", owned={"t": [0, 1]}))]
    s.note("coop rejoin revoked", s.join(g, a, protocols=revoked))
    s.note("coop sync revoked", s.sync(g, a, 2, protocol=name))
    s.note("coop hb revoked", s.heartbeat(g, a, 2))
    s.note("coop beat", s.beat(g, "~c", 2))
    s.note("coop second consumer", s.consumer_join(g, "~d"))
    s.note("coop beat c", s.beat(g, "~c", 2))
    s.note("coop hb 2", s.heartbeat(g, a, 2))
    s.note("coop rejoin 2", s.join(g, a, protocols=revoked))
    s.note("coop sync 2", s.sync(g, a, 3, protocol=name))
    s.note("coop beat d", s.beat(g, "~d", 3))
    s.note("coop c leaves", s.beat(g, "~c", -1))
    s.note("coop hb 3", s.heartbeat(g, a, 3))
    s.note("coop beat d 2", s.beat(g, "~d", 3))
    s.note("coop rejoin 3", s.join(g, a, protocols=revoked))
    s.note("coop sync 3", s.sync(g, a, 4, protocol=name))
    s.show("three became two", g)


def static_members(s: Script) -> None:
    g = "static"
    data = [(RANGE, metadata("t"))]
    a = s.join(g, instance_id="i", protocols=data).get().member_id
    s.name(a)
    s.sync(g, a, 1, "i", parts={a: write_assignment(EVERYTHING, 1)}).get()
    s.note("static upgrade", s.consumer_join(g, "~s", "i"))
    s.show("static upgraded", g)
    s.note("static old hb", s.heartbeat(g, a, 1, "i"))
    s.note("static old join", s.join(g, a, "i", protocols=data))
    s.note("static beat", s.beat(g, "~s", 1, instance_id="i"))
    s.note("static beat ahead", s.beat(g, "~s", 2, instance_id="i"))
    call = s.join(g, instance_id="i", protocols=data)
    b = call.get().member_id
    s.note("static downgrade", call)
    s.show("static downgraded", g)
    s.note("static sync", s.sync(g, b, call.get().generation_id, "i"))
    s.note("static hb", s.heartbeat(g, b, call.get().generation_id, "i"))
    s.note("static upgrade again", s.consumer_join(g, "~s", "i"))
    call = s.join(g, instance_id="i", protocols=[(RANGE, metadata("t", "u"))])
    c = call.get().member_id
    s.note("static downgrade changed", call)
    s.show("static downgraded changed", g)
    s.note("static sync changed", s.sync(g, c, call.get().generation_id, "i"))
    s.note("static hb changed", s.heartbeat(g, c, call.get().generation_id, "i"))


def parked_requests(s: Script) -> None:
    g = "parked"
    data = [(RANGE, metadata("t"))]
    a = s.eager(g)
    b = s.join(g, protocols=data).get().member_id
    s.name(b)
    waiting = s.join(g, b, protocols=data)
    s.add("join waits", waiting.waits(300))
    s.note("upgrade parked", s.consumer_join(g, "~c"))
    if s.answers[-1][1][0] != ErrorCode.NONE.name:
        s.note("hb parked", s.heartbeat(g, a, 1))
        s.join(g, a, protocols=data).get()
        waiting.get()
        return
    s.note("parked join", waiting)
    s.note("hb parked", s.heartbeat(g, b, 1))
    s.note("hb parked a", s.heartbeat(g, a, 1))
    s.note("parked rejoins", s.join(g, b, protocols=data))


def unfit_groups(s: Script) -> None:
    plain = write_assignment(EVERYTHING, 1)
    g = "connect"
    a = s.join(g, protocol_type="connect").get().member_id
    s.name(a)
    s.join(g, a, protocol_type="connect").get()
    s.note("connect group", s.consumer_join(g, "~c"))
    s.member_of_one("malformed", b"\0", plain)
    s.note("malformed subscription", s.consumer_join("malformed", "~c"))
    s.member_of_one("malformed part", metadata("t"), b"\0")
    s.note("malformed assignment", s.consumer_join("malformed part", "~c"))
    s.member_of_one("custom", metadata("t"), plain[:-4] + pack(">i", 2) + b"ud")
    s.note("custom assignor", s.consumer_join("custom", "~c"))
    s.member_of_one("missing topic", metadata("x"), write_assignment({"x": [0]}, 1))
    s.note("missing topic", s.consumer_join("missing topic", "~c"))
    s.member_of_one("new version", metadata("t", version=9) + pack(">ih", -1, -1) + b"more", plain)
    s.note("newer version", s.consumer_join("new version", "~c"))


def newcomers(s: Script) -> None:
    g = "newcomers"
    data = [(RANGE, metadata("t"))]
    s.note("consumer alone", s.consumer_join(g, "~c"))
    s.note("classic newcomer", s.join(g, protocols=data))
    if s.answers[-1][1][0] != ErrorCode.MEMBER_ID_REQUIRED.name:
        return
    s.note("classic newcomer v3", s.join(g, protocols=data, version=3))
    s.note("other type", s.join(g, protocols=data, protocol_type="connect"))
    s.note("no protocols", s.join(g, protocols=()))
    s.note("malformed", s.join(g, "bad", protocols=[(RANGE, b"\0")]))
    s.note("any id", s.join(g, "any", protocols=[(RANGE, metadata("t")), ("x", metadata("t"))]))
    s.note("nothing in common", s.join(g, "other", protocols=[("x", metadata("t"))]))
    s.note("session low", s.join(g, "other", protocols=data, session_ms=5999))
    s.note("unknown static", s.join(g, "other", "i", protocols=data))
    s.note("leave", s.leave(g, ("any", None), ("ghost", None), ("", "i")))


def departures(s: Script) -> None:
    g = "departures"
    a = s.eager(g)
    s.note("admin upgrade", s.consumer_join(g, "~c", "ic"))
    if s.answers[-1][1][0] != ErrorCode.NONE.name:
        return
    s.note("fenced", s.leave(g, ("x", "ic")))
    s.note("away", s.beat(g, "~c", -2, instance_id="ic"))
    s.note("hb away", s.heartbeat(g, a, 1))
    s.note("admin removes", s.leave(g, ("", "ic")))
    s.show("admin removed", g)
    s.note("hb removed", s.heartbeat(g, a, 1))


def classic_joins_consumer(s: Script) -> None:
    """A group that began under the consumer protocol."""
    g = "consumer first"
    s.note("first", s.consumer_join(g, "~c"))
    call = s.join(g, protocols=[(RANGE, metadata("t"))], version=3)
    s.note("classic joins", call)
    if call.get().error_code is not ErrorCode.NONE:
        return
    b = call.get().member_id
    s.note("classic syncs", s.sync(g, b, 3))
    s.note("first gives", s.beat(g, "~c", 2))
    s.note("classic waits", s.heartbeat(g, b, 3))
    s.note("first gave", s.beat(g, "~c", 2, owned={"t": [2, 3]}))
    s.note("classic told", s.heartbeat(g, b, 3))
    s.note("classic rejoins", s.join(g, b, protocols=[(RANGE, metadata("t"))]))
    s.note("classic has", s.sync(g, b, 3))
    s.note("consumer goes", s.beat(g, "~c", -1))
    s.show("classic left", g)


def timeouts(s: Script) -> None:
    """A consumer dies; a classic member does not join again; another one joins and never syncs."""
    data = [(RANGE, metadata("t"))]
    a = s.eager("dies")
    s.note("dies upgrade", s.consumer_join("dies", "~c"))
    if s.answers[-1][1][0] != ErrorCode.NONE.name:
        return
    b = s.eager("stays")
    s.consumer_join("stays", "~c").get()
    c = s.eager("joins")
    s.consumer_join("joins", "~c").get()
    s.join("joins", c, protocols=data).get()
    for _ in range(REBALANCE_MS // 1000 + 2):
        s.heartbeat("dies", a, 1).get()
        s.heartbeat("stays", b, 1).get()
        s.beat("stays", "~c", 2).get()
        s.heartbeat("joins", c, 2).get()
        s.beat("joins", "~c", 2).get()
        s.caller.sleep(1000)
    s.show("died", "dies")
    s.note("did not join", s.heartbeat("stays", b, 1))
    s.show("did not join", "stays")
    s.note("did not sync", s.heartbeat("joins", c, 2))
