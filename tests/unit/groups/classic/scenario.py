"""One script of requests to classic groups, for anything that answers them.

``data/kafka_4_3_1_answers.jsonl`` holds what Apache Kafka 4.3.1 answered to it, request by request
(member ids replaced by M0, M1 … in the order of their appearance). ``SETTINGS`` are the settings
that the script counts on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.groups.classic.harness import milliseconds

from moldau.wire.api import ApiKey
from moldau.wire.make import make

SETTINGS = {
    "group.initial.rebalance.delay.ms": "500",
    "group.max.size": "3",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
}
SESSION_MS = 6000
REBALANCE_MS = 8000
RANGE = (("range", b"r"),)

Answer = list[Any]
Protocols = Iterable[tuple[str, bytes]]


def kafka_answers() -> list[Answer]:
    file = Path(__file__).parent / "data" / "kafka_4_3_1_answers.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]


class Call(Protocol):
    """A request that was sent."""

    def get(self) -> Any:
        """Its response, waited for."""

    def waits(self, for_ms: int) -> bool:
        """Whether there is still no response after this time."""


class Caller(Protocol):
    """Sends each request on a connection of its own."""

    def send(self, api: ApiKey, version: int, request: Any) -> Call: ...

    def sleep(self, ms: int) -> None: ...

    def now_ms(self) -> int: ...


class Script:
    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.answers: list[Answer] = []
        self._names: dict[str, str] = {}

    def run(self) -> list[Answer]:
        first_rounds(self)
        group_of_two(self)
        static_members(self)
        static_newcomer(self)
        full_group(self)
        slow_member(self)
        silent_member(self)
        return self.answers

    # -- requests --------------------------------------------------------------------------------

    def join(
        self,
        group_id: str,
        member_id: str = "",
        instance_id: str | None = None,
        *,
        protocols: Protocols = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        version: int = 9,
    ) -> Call:
        request = make(
            JoinGroupRequest,
            group_id=group_id,
            session_timeout=milliseconds(session_ms),
            rebalance_timeout=milliseconds(REBALANCE_MS),
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=tuple(
                JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols
            ),
            reason=None,
        )
        return self.caller.send(ApiKey.JOIN_GROUP, version, request)

    def sync(
        self,
        group_id: str,
        member_id: str,
        generation: int,
        instance_id: str | None = None,
        *,
        parts: dict[str, bytes] | None = None,
        protocol_type: str | None = "consumer",
        protocol: str | None = "range",
        version: int = 5,
    ) -> Call:
        request = make(
            SyncGroupRequest,
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=name, assignment=part)
                for name, part in (parts or {}).items()
            ),
        )
        return self.caller.send(ApiKey.SYNC_GROUP, version, request)

    def heartbeat(
        self, group_id: str, member_id: str, generation: int, instance_id: str | None = None
    ) -> Call:
        request = make(
            HeartbeatRequest,
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
        )
        return self.caller.send(ApiKey.HEARTBEAT, 4, request)

    def leave(self, group_id: str, *members: tuple[str, str | None], version: int = 5) -> Call:
        request = make(
            LeaveGroupRequest,
            group_id=group_id,
            members=tuple(
                MemberIdentity(member_id=member_id, group_instance_id=instance_id)
                for member_id, instance_id in members
            ),
        )
        return self.caller.send(ApiKey.LEAVE_GROUP, version, request)

    # -- larger moves ----------------------------------------------------------------------------

    def new_member(self, group_id: str) -> tuple[str, Call]:
        member_id = self.join(group_id).get().member_id
        self.name(member_id)
        return member_id, self.join(group_id, member_id)

    def stable(self, group_id: str, size: int = 2) -> list[str]:
        """A stable group of new members in its first generation, its leader first."""
        joining = [self.new_member(group_id) for _ in range(size)]
        leader = {call.get().leader for _, call in joining}
        ids = [member_id for member_id, _ in joining]
        ids.sort(key=lambda member_id: member_id not in leader)
        waiting = [self.sync(group_id, member_id, 1) for member_id in ids[1:]]
        self.caller.sleep(200)
        parts = {member_id: f"p{number}".encode() for number, member_id in enumerate(ids)}
        self.sync(group_id, ids[0], 1, parts=parts).get()
        for call in waiting:
            call.get()
        return ids

    # -- answers ---------------------------------------------------------------------------------

    def name(self, member_id: str) -> str:
        return member_id and self._names.setdefault(member_id, f"M{len(self._names)}")

    def rename(self, member_id: str, name: str) -> None:
        self._names[member_id] = name

    def note(self, label: str, call: Call) -> None:
        response = call.get()
        match type(response).__name__:
            case "JoinGroupResponse":
                self._note_join(label, response)
            case "SyncGroupResponse":
                self.add(
                    label,
                    response.error_code.name,
                    response.protocol_type,
                    response.protocol_name,
                    response.assignment.decode("latin1"),
                )
            case "HeartbeatResponse":
                self.add(label, response.error_code.name)
            case _:
                members = [
                    [self.name(m.member_id), m.group_instance_id, m.error_code.name]
                    for m in response.members
                ]
                self.add(label, response.error_code.name, members)

    def _note_join(self, label: str, response: Any) -> None:
        self.add(
            label,
            response.error_code.name,
            response.generation_id,
            response.protocol_type,
            response.protocol_name,
            self.name(response.leader),
            response.skip_assignment,
            self.name(response.member_id),
            sorted(
                [self.name(m.member_id), m.group_instance_id, m.metadata.decode("latin1")]
                for m in response.members
            ),
        )

    def add(self, label: str, *values: Any) -> None:
        self.answers.append([label, [*values]])


# -- the script ----------------------------------------------------------------------------------


def first_rounds(s: Script) -> None:
    for version in range(10):
        s.note(f"join v{version}", s.join(f"v{version}", version=version))
    s.note("no group id", s.join(""))
    s.note("session low", s.join("g", session_ms=5999))
    s.note("session high", s.join("g", session_ms=1_800_001))
    s.note("ghost no group", s.join("nogroup", "ghost"))
    s.note("no protocols", s.join("np", protocols=()))
    s.note("no ptype", s.join("npt", protocol_type=""))
    s.note("hb no group", s.heartbeat("nogroup", "x", 1))
    s.note("sync no group", s.sync("nogroup", "x", 1))
    s.note("leave no group", s.leave("nogroup", ("x", None), ("", "i")))
    s.note("hb empty id", s.heartbeat("", "x", 1))
    s.note("sync empty id", s.sync("", "x", 1))
    s.note("leave empty id", s.leave("", ("x", None)))


def group_of_two(s: Script) -> None:
    g = "stable"
    a, b = s.stable(g)
    s.note("follower same", s.join(g, b))
    s.note("hb", s.heartbeat(g, a, 1))
    s.note("hb old", s.heartbeat(g, a, 0))
    s.note("hb ghost", s.heartbeat(g, "ghost", 1))
    s.note("hb inst", s.heartbeat(g, a, 1, "x"))
    s.note("sync stable", s.sync(g, b, 1))
    s.note("sync old", s.sync(g, b, 0))
    s.note("sync proto", s.sync(g, b, 1, protocol="x"))
    s.note("sync ptype", s.sync(g, b, 1, protocol_type="x"))
    s.note("sync none", s.sync(g, b, 1, protocol=None))
    s.note("sync none v4", s.sync(g, b, 1, protocol=None, protocol_type=None, version=4))
    s.note("join ghost", s.join(g, "ghost"))
    s.note("join ghost v6", s.join(g, "ghost", version=6))
    s.note("join proto", s.join(g, protocols=(("z", b""),)))
    s.note("join ptype", s.join(g, b, protocol_type="connect"))
    s.note("join inst", s.join(g, a, "x"))
    rejoin_and_newcomer(s, g, a, b)
    departures(s, g, a, b)


def rejoin_and_newcomer(s: Script, g: str, a: str, b: str) -> None:
    ja = s.join(g, a)
    s.add("leader rejoin waits", ja.waits(400))
    s.note("hb rebalance", s.heartbeat(g, b, 1))
    s.note("sync rebalance", s.sync(g, b, 1))
    jb = s.join(g, b, protocols=(("range", b"other"),))
    s.note("ja", ja)
    s.note("jb", jb)
    s.note("join again completing", s.join(g, a))
    sb = s.sync(g, b, 2)
    s.add("sb waits", sb.waits(400))
    c, jc = s.new_member(g)
    s.note("sb", sb)
    s.note("hb prep", s.heartbeat(g, a, 2))
    ja = s.join(g, a)
    s.note("leave c parked", s.leave(g, (c, None)))
    s.note("jc", jc)
    jb = s.join(g, b)
    s.note("ja", ja)
    s.note("jb", jb)


def departures(s: Script, g: str, a: str, b: str) -> None:
    s.note("leave mixed", s.leave(g, (a, None), ("ghost", None), ("", "nobody"), ("", None)))
    s.note("hb left", s.heartbeat(g, a, 3))
    s.note("jb alone", s.join(g, b))
    s.note("leave last", s.leave(g, (b, None)))
    s.note("hb empty", s.heartbeat(g, b, 4))
    s.note("sync empty", s.sync(g, b, 4))
    s.note("join empty", s.join(g, b))
    s.note("leave v2", s.leave(g, (b, None), version=2))
    s.note("leave v0", s.leave(g, (b, None), version=0))
    _, joining = s.new_member(g)
    s.note("new after empty", joining)


def static_members(s: Script) -> None:
    g = "static"
    calls = {name: s.join(g, instance_id=name, session_ms=30_000) for name in "ab"}
    joined = {name: call.get() for name, call in calls.items()}
    lead = next(name for name, r in joined.items() if r.leader == r.member_id)
    follow = next(name for name in joined if name != lead)
    leader, follower = joined[lead].member_id, joined[follow].member_id
    s.rename(leader, "L")
    s.rename(follower, "F")
    waiting = s.sync(g, follower, 1, follow)
    s.caller.sleep(200)
    s.sync(g, leader, 1, lead, parts={leader: b"l", follower: b"f"}).get()
    waiting.get()

    r = s.join(g, instance_id=follow).get()
    back = [r.error_code.name, r.generation_id, s.name(r.leader), r.skip_assignment]
    s.add("follower back", [*back, len(r.members)])
    s.note("sync back", s.sync(g, r.member_id, 1, follow))
    s.note("fenced hb", s.heartbeat(g, follower, 1, follow))
    s.note("fenced sync", s.sync(g, follower, 1, follow))
    r = s.join(g, follower, follow).get()
    s.add("fenced join", [r.error_code.name, r.protocol_name, r.leader, s.name(r.member_id)])
    r = s.leave(g, (follower, follow)).get()
    s.add("fenced leave", [member.error_code.name for member in r.members])
    s.note("old id hb", s.heartbeat(g, follower, 1))

    r = s.join(g, instance_id=lead).get()
    leads = r.leader == r.member_id
    back = [r.error_code.name, r.generation_id, leads, r.skip_assignment, len(r.members)]
    s.add("leader back", back)
    before = r.member_id
    r = s.join(g, instance_id=lead, version=8).get()
    leads = r.leader == r.member_id
    back = [r.error_code.name, r.generation_id, r.leader == before, leads, r.skip_assignment]
    s.add("leader back v8", [*back, len(r.members)])
    removed = s.leave(g, ("", follow)).get()
    s.add("admin removes", [[m.member_id, m.error_code.name] for m in removed.members])
    r = s.join(g, r.member_id, lead).get()
    s.add("alone", [r.generation_id, len(r.members)])


def static_newcomer(s: Script) -> None:
    first = s.join("static2", instance_id="a")
    s.add("parked", first.waits(100))
    second = s.join("static2", instance_id="a")
    r = first.get()
    fenced = [r.error_code.name, r.protocol_name, r.protocol_type, r.generation_id]
    s.add("parked fenced", [*fenced, bool(r.member_id)])
    s.add("new one", second.get().error_code.name)


def full_group(s: Script) -> None:
    ids = s.stable("size", 3)
    s.note("full", s.join("size"))
    s.note("full static", s.join("size", instance_id="zz"))
    s.note("member ok", s.join("size", ids[1]))


def slow_member(s: Script) -> None:
    """It keeps its heartbeat but does not rejoin."""
    g = "time"
    a, b = s.stable(g)
    ja = s.join(g, a, protocols=(("range", b"n"),))
    start = s.caller.now_ms()
    for _ in range(12):
        s.caller.sleep(500)
        s.heartbeat(g, b, 1).get()
    r = ja.get()
    s.add("rebalance timeout", [r.error_code.name, r.generation_id, len(r.members)])
    s.add("about 8s", s.caller.now_ms() - start >= REBALANCE_MS - 500)
    s.note("b gone", s.heartbeat(g, b, 1))


def silent_member(s: Script) -> None:
    g = "sess"
    a, b = s.stable(g)
    for _ in range(11):
        s.caller.sleep(500)
        s.heartbeat(g, a, 1).get()
    s.caller.sleep(1000)
    s.note("rebalance after session", s.heartbeat(g, a, 1))
    s.note("dead", s.heartbeat(g, b, 1))
    s.note("join alone", s.join(g, a))
