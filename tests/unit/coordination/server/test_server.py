"""The tree on a port, looked at from the wire."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.memory_storage import MemoryStorage
from tests.support.turn_meter import metered_turns
from tests.unit.coordination.server.zk_client import (
    WireClient,
    create_body,
    hang_up_all,
    path_and_watch,
)

from moldau.coordination.embedded import EmbeddedStore
from moldau.coordination.server import jute, limits
from moldau.coordination.server.jute import MalformedError, Reader
from moldau.coordination.server.limits import (
    LARGEST_FRAME,
    MOST_UNANSWERED,
    MOST_UNSENT,
)
from moldau.coordination.server.protocol import Code, Op
from moldau.coordination.server.requests import Request, prepare
from moldau.coordination.server.server import CoordinationServer
from moldau.machine.real.machine import real_machine

CREATED, DELETED, CHANGED, CHILDREN = 1, 2, 3, 4


class Served:
    """A server in this process, and how often its store was synced."""

    def __init__(self, storage: MemoryStorage, server: CoordinationServer) -> None:
        self.storage = storage
        self.server = server

    @property
    def port(self) -> int:
        return self.server.port

    async def client(self) -> WireClient:
        return await WireClient.connect(self.port)


async def serve(storage: MemoryStorage, port: int = 0) -> Served:
    machine = real_machine()
    store = await EmbeddedStore.open(
        storage, asyncio.to_thread, machine.clock.now_ms, keeps_sessions=True
    )
    server = CoordinationServer(machine, store, "127.0.0.1", port)
    server.start()
    return Served(storage, server)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    found = await serve(MemoryStorage())
    yield found
    await hang_up_all()
    found.server.close()
    await found.server.store.close()


async def event_of(client: WireClient) -> tuple[int, str]:
    answer = await client.answer()
    assert (answer.xid, answer.code) == (-1, 0)
    kind, state = answer.body.integer(), answer.body.integer()
    assert state == 3
    return kind, answer.body.string()


# Sessions


async def test_a_session_is_opened_pinged_and_closed(served: Served) -> None:
    client = await served.client()
    assert client.session_id != 0
    assert client.timeout_ms == 30_000
    assert len(client.password) == 16
    client.send(Op.PING, xid=-2)
    assert (await client.answer()).xid == -2
    client.send(Op.CREATE, create_body("/e", flags=1))
    assert (await client.answer()).code == 0
    xid = client.send(Op.CLOSE)
    assert (await client.answer()).xid == xid
    assert await client.rest() == b""
    other = await served.client()
    assert (await other.ask(Op.EXISTS, path_and_watch("/e"))).code == Code.NO_NODE
    again = await WireClient.connect(
        served.port, session_id=client.session_id, password=client.password
    )
    assert (again.timeout_ms, again.session_id) == (0, 0)


async def test_timeouts_are_kept_within_bounds(served: Served) -> None:
    short = await WireClient.connect(served.port, timeout_ms=1)
    long = await WireClient.connect(served.port, timeout_ms=1 << 30)
    assert (short.timeout_ms, long.timeout_ms) == (200, 600_000)


async def test_a_session_goes_to_whoever_has_its_password_and_its_old_connection_ends(
    served: Served,
) -> None:
    first = await served.client()
    first.send(Op.CREATE, create_body("/e", flags=1))
    assert (await first.answer()).code == 0
    thief = await WireClient.connect(served.port, session_id=first.session_id, password=b"x" * 16)
    assert (thief.timeout_ms, thief.session_id) == (0, 0)
    second = await WireClient.connect(
        served.port, session_id=first.session_id, password=first.password
    )
    assert (second.session_id, second.timeout_ms) == (first.session_id, 30_000)
    assert await first.rest() == b""
    assert (await second.ask(Op.EXISTS, path_and_watch("/e"))).code == 0


async def test_a_silent_session_ends_and_its_connection_with_it(served: Served) -> None:
    silent = await WireClient.connect(served.port, timeout_ms=200)
    silent.send(Op.CREATE, create_body("/e", flags=1))
    await silent.answer()
    other = await served.client()
    await other.ask(Op.EXISTS, path_and_watch("/e", watch=True))
    assert await event_of(other) == (DELETED, "/e")
    assert await silent.rest() == b""


async def test_a_client_that_has_seen_more_than_there_is_gets_no_session(served: Served) -> None:
    client = await served.client()
    again = await WireClient.dial(served.port)
    head = struct.pack(">iqiq", 0, 1 << 40, 30_000, client.session_id)
    again.send_frame(head + jute.buffer(client.password) + b"\0")
    assert await again.rest() == b""


async def test_sessions_go_on_after_a_restart(served: Served) -> None:
    client = await served.client()
    client.send(Op.CREATE, create_body("/e", flags=1))
    await client.answer()
    crashed = await serve(MemoryStorage(served.storage.files))
    again = await WireClient.connect(
        crashed.port, session_id=client.session_id, password=client.password
    )
    assert again.session_id == client.session_id
    assert (await again.ask(Op.EXISTS, path_and_watch("/e"))).code == 0
    crashed.server.close()


# Order


async def test_requests_that_come_together_are_answered_in_order_after_one_sync(
    served: Served,
) -> None:
    client = await served.client()
    before = served.storage.appends
    sent = []
    for number in range(200):
        sent.append(client.send(Op.CREATE, create_body(f"/{number}")))
        sent.append(client.send(Op.EXISTS, path_and_watch(f"/{number}")))
    answers = [await client.answer() for _ in sent]
    assert [answer.xid for answer in answers] == sent
    assert {answer.code for answer in answers} == {0}
    zxids = [answer.zxid for answer in answers]
    assert zxids == sorted(zxids)
    assert served.storage.appends - before < 20


async def test_an_event_comes_behind_the_answer_that_left_its_watch_and_before_later_data(
    served: Served,
) -> None:
    client, other = await served.client(), await served.client()
    await client.create("/a", b"0")
    for number in range(50):
        read = client.send(Op.GET_DATA, path_and_watch("/a", watch=True))
        other.send(Op.SET_DATA, jute.string("/a") + jute.buffer(b"%d" % number) + jute.integer(-1))
        client.send(Op.SYNC, jute.string("/a"))
        again = client.send(Op.GET_DATA, path_and_watch("/a"))
        seen: list[int] = []
        data: dict[int, bytes] = {}
        while again not in seen or -1 not in seen:
            answer = await client.answer()
            seen.append(answer.xid)
            if answer.xid in (read, again):
                data[answer.xid] = answer.body.buffer()
        assert seen.index(read) < seen.index(-1)
        if data[again] != data[read]:
            assert seen.index(-1) < seen.index(again)
        assert (await other.answer()).code == 0


async def test_an_answer_of_many_nodes_has_its_bounds(served: Served) -> None:
    client = await served.client()
    await client.create("/large", bytes(1_000_000))
    one = jute.integer(Op.GET_DATA) + b"\0" + jute.integer(-1) + path_and_watch("/large")
    end = jute.integer(-1) + b"\1" + jute.integer(-1)
    few = await client.ask(Op.MULTI_READ, 2 * one + end)
    assert (few.code, few.body.left > 2_000_000) == (0, True)
    many = await client.ask(Op.MULTI_READ, 1000 * one + end)
    assert (many.code, many.body.left) == (Code.BAD_ARGUMENTS, 0)


# Watches


async def test_watches_that_are_left_again_tell_what_was_missed(served: Served) -> None:
    client, other = await served.client(), await served.client()
    for path in ("/same", "/changed", "/gone", "/parent", "/quiet"):
        await client.create(path)
    seen = (await client.ask(Op.SYNC, jute.string("/"))).zxid
    client.close()
    for op, body in (
        (Op.SET_DATA, jute.string("/changed") + jute.buffer(b"x") + jute.integer(-1)),
        (Op.DELETE, jute.string("/gone") + jute.integer(-1)),
        (Op.CREATE, create_body("/new")),
        (Op.CREATE, create_body("/parent/child")),
    ):
        assert (await other.ask(op, body)).code == 0
    again = await WireClient.connect(
        served.port, session_id=client.session_id, password=client.password, seen=seen
    )
    lists = [["/same", "/changed", "/gone"], ["/new", "/later"], ["/parent", "/quiet"]]
    body = struct.pack(">q", seen) + b"".join(map(jute.strings, lists))
    xid = again.send(Op.SET_WATCHES_2, body + jute.strings([]) + jute.strings([]), xid=-8)
    told = [await event_of(again) for _ in range(4)]
    assert told == [(CHANGED, "/changed"), (DELETED, "/gone"), (CREATED, "/new"), (4, "/parent")]
    assert (await again.answer()).xid == xid
    for op, body, event in (
        (Op.SET_DATA, jute.string("/same") + jute.buffer(b"") + jute.integer(-1), (3, "/same")),
        (Op.CREATE, create_body("/later"), (CREATED, "/later")),
        (Op.CREATE, create_body("/quiet/child"), (CHILDREN, "/quiet")),
    ):
        assert (await other.ask(op, body)).code == 0
        assert await event_of(again) == event


# What is not there


async def test_lists_that_nobody_would_enforce_are_refused(served: Served) -> None:
    client = await served.client()
    mine = jute.integer(1) + jute.integer(31) + jute.string("auth") + jute.string("")
    answer = await client.ask(Op.CREATE, create_body("/a", acl=mine))
    assert answer.code == Code.INVALID_ACL
    assert (await client.ask(Op.EXISTS, path_and_watch("/a"))).code == Code.NO_NODE
    assert (await client.ask(Op.CREATE, create_body("/a", flags=4))).code == Code.UNIMPLEMENTED
    assert (await client.ask(9999)).code == Code.UNIMPLEMENTED
    await client.create("/b")
    open_acl = await client.ask(Op.GET_ACL, jute.string("/b"))
    assert (open_acl.body.integer(), open_acl.body.integer()) == (1, 31)


async def test_a_digest_is_welcome_and_other_schemes_are_not(served: Served) -> None:
    client = await served.client()
    client.send(
        Op.AUTH, jute.integer(0) + jute.string("digest") + jute.buffer(b"user:password"), xid=-4
    )
    answer = await client.answer()
    assert (answer.xid, answer.code) == (-4, 0)
    client.send(Op.AUTH, jute.integer(0) + jute.string("sasl") + jute.buffer(b""), xid=-4)
    assert (await client.answer()).code == Code.AUTH_FAILED
    assert await client.rest() == b""


@pytest.mark.parametrize(
    ("word", "said"), [("ruok", b"imok"), ("srvr", b"Zookeeper version"), ("mntr", b"zk_version")]
)
async def test_words_of_four_letters(served: Served, word: str, said: bytes) -> None:
    client = await WireClient.dial(served.port)
    client.send_bytes(word.encode())
    assert (await client.rest()).startswith(said)


# Hostile clients

MALFORMED = {
    "a length that is negative": struct.pack(">i", -1),
    "a frame that is too large": struct.pack(">i", LARGEST_FRAME + 1),
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
    "no handshake": jute.buffer(b"\0\0\0\1"),
    "another protocol": jute.buffer(struct.pack(">iqiq", 7, 0, 1000, 0)),
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
async def test_who_speaks_something_else_is_hung_up_on(served: Served, sent: bytes) -> None:
    honest = await served.client()
    client = await WireClient.dial(served.port)
    client.send_bytes(sent)
    assert await client.rest() == b""
    assert (await honest.ask(Op.EXISTS, path_and_watch("/"))).code == 0


@pytest.mark.parametrize("op", [*Op, 0, -1, 103, 106])
async def test_no_body_takes_the_server_down(served: Served, op: int) -> None:
    honest = await served.client()
    random = Random(int(op))
    for size in range(24):
        client = await served.client()
        client.send(op, random.randbytes(size))
        client.send(Op.CLOSE)
        await client.rest()
    assert (await honest.ask(Op.EXISTS, path_and_watch("/"))).code == 0


@given(op=st.sampled_from([*Op]), body=st.binary(max_size=200))
def test_a_body_is_understood_or_refused(op: int, body: bytes) -> None:
    request = Request(None, None, None)  # type: ignore[arg-type]  # nothing is done
    try:
        prepare(request, op, Reader(body))
    except MalformedError:
        return


async def test_who_sends_and_never_reads_is_not_read_any_further(served: Served) -> None:
    honest, greedy = await served.client(), await served.client()
    await greedy.create("/large", bytes(500_000))
    for _ in range(2000):
        greedy.send(Op.GET_DATA, path_and_watch("/large"))
    assert (await honest.ask(Op.EXISTS, path_and_watch("/large"))).code == 0
    connections = served.server._connections
    assert max(connection.unanswered for connection in connections) <= MOST_UNANSWERED
    assert max(connection._unsent for connection in connections) <= 2 * MOST_UNSENT
    greedy.close()


async def test_who_asks_for_much_at_once_is_answered_one_after_the_other(served: Served) -> None:
    client = await served.client()
    await client.create("/large", bytes(500_000))
    one = jute.integer(Op.GET_DATA) + b"\0" + jute.integer(-1) + path_and_watch("/large")
    end = jute.integer(-1) + b"\1" + jute.integer(-1)
    most = 0
    connection = next(iter(served.server._connections))
    answer = connection._answer

    def watched(frame: bytes) -> None:
        nonlocal most
        answer(frame)
        most = max(most, connection._unsent)

    connection._answer = watched  # type: ignore[method-assign]
    # The change is being synced while the others come, so that they are executed together.
    sent = [client.send(Op.CREATE, create_body("/e"))]
    sent += [client.send(Op.MULTI_READ, 4 * one + end) for _ in range(20)]
    assert [(await client.answer()).xid for _ in sent] == sent
    assert most < 2 * 2_100_000


async def test_who_never_reads_does_not_stay_when_its_session_is_over(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.coordination.server.server.FAREWELL_S", 0.2)
    client = await WireClient.connect(served.port, timeout_ms=500)
    await client.create("/large", bytes(1_000_000))
    one = jute.integer(Op.GET_DATA) + b"\0" + jute.integer(-1) + path_and_watch("/large")
    client.send(Op.MULTI_READ, 40 * one + jute.integer(-1) + b"\1" + jute.integer(-1))
    async with asyncio.timeout(30):
        while served.server._connections:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.05)
    assert len(served.server.kept) == 0


END = jute.integer(-1) + b"\1" + jute.integer(-1)


def in_multi(op: int, body: bytes) -> bytes:
    return jute.integer(op) + b"\0" + jute.integer(-1) + body


def full_of(one: bytes) -> bytes:
    """As many operations as a frame holds."""
    return one * ((LARGEST_FRAME - 100) // len(one)) + END


LABORIOUS = {
    "checks": (Op.MULTI, full_of(in_multi(Op.CHECK, jute.string("/") + jute.integer(-1)))),
    "creations": (
        Op.MULTI,
        b"".join(
            in_multi(Op.CREATE, jute.string(f"/n{number}") + jute.buffer(b"") + bytes(8))
            for number in range(33_000)
        )
        + END,
    ),
    "reads": (Op.MULTI_READ, full_of(in_multi(Op.GET_DATA, path_and_watch("/")))),
    "lists": (Op.MULTI_READ, full_of(in_multi(Op.GET_CHILDREN, path_and_watch("/many")))),
    "watches": (
        Op.SET_WATCHES,
        bytes(12) + jute.strings([f"/w{number}" for number in range(90_000)]) + jute.integer(0),
    ),
    "permissions": (
        Op.CREATE,
        jute.string("/a") + jute.buffer(b"") + jute.integer(87_000) + bytes(12 * 87_000 + 4),
    ),
}
"""Requests of a megabyte, each of which was half a second of work, or eight."""
NOTICEABLE_S = 0.25


@pytest.mark.parametrize("asked", LABORIOUS.values(), ids=LABORIOUS)
async def test_a_large_request_holds_nobody_up(served: Served, asked: tuple[Op, bytes]) -> None:
    client = await served.client()
    await client.create("/many")
    for first in range(0, 20_000, 4000):
        names = [f"/many/{number}" for number in range(first, first + 4000)]
        body = b"".join(in_multi(Op.CREATE, create_body(name)) for name in names)
        assert (await client.ask(Op.MULTI, body + END)).code == 0
    with metered_turns() as meter:
        answer = await client.ask(*asked)
    assert answer.code in (Code.QUOTA_EXCEEDED, Code.BAD_ARGUMENTS, Code.INVALID_ACL)
    assert meter.longest_s < NOTICEABLE_S
    assert (await client.ask(Op.EXISTS, path_and_watch("/many"))).code == 0


async def test_large_requests_that_come_together_are_not_done_in_one_turn(served: Served) -> None:
    clients = [await served.client() for _ in range(20)]
    for number, client in enumerate(clients):
        names = [f"/{number}-{name}" for name in range(1000)]
        data = bytes(50)
        body = b"".join(in_multi(Op.CREATE, create_body(name, data)) for name in names)
        client.send(Op.MULTI, body + END)
    with metered_turns() as meter:
        answers = [await client.answer() for client in clients]
    assert {answer.code for answer in answers} == {0}
    assert meter.longest_s < NOTICEABLE_S
    assert len(served.server.store.tree.nodes) == 20_001


async def test_watches_and_ephemeral_nodes_of_one_client_have_their_bounds(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_WATCHES", 3)
    monkeypatch.setattr(limits, "MOST_EPHEMERALS", 2)
    monkeypatch.setattr(limits, "MOST_CHILDREN", 5)
    client, other = await served.client(), await served.client()
    asked = [await client.ask(Op.EXISTS, path_and_watch(f"/{n}", watch=True)) for n in range(5)]
    assert [one.code for one in asked] == [Code.NO_NODE] * 3 + [Code.QUOTA_EXCEEDED] * 2
    assert (await client.ask(Op.EXISTS, path_and_watch("/4"))).code == Code.NO_NODE
    assert (await other.ask(Op.EXISTS, path_and_watch("/4", watch=True))).code == Code.NO_NODE
    made = [await client.ask(Op.CREATE, create_body(f"/e{n}", flags=1)) for n in range(3)]
    assert [one.code for one in made] == [0, 0, Code.QUOTA_EXCEEDED]
    for number in range(3):
        await other.create(f"/n{number}")
    assert (await other.ask(Op.CREATE, create_body("/n3"))).code == Code.QUOTA_EXCEEDED
    long = "/" + "n" * limits.LONGEST_PATH
    assert (await other.ask(Op.EXISTS, path_and_watch(long))).code == Code.BAD_ARGUMENTS


async def test_what_a_client_watched_costs_the_others_nothing_when_it_goes(served: Served) -> None:
    watching, going = await served.client(), await served.client()
    for client in (watching, going):
        paths = [f"/{client.session_id}-{number}" for number in range(5000)]
        body = bytes(12) + jute.strings([*paths, "/both"]) + jute.integer(0)
        assert (await client.ask(Op.SET_WATCHES, body)).code == 0
    watches = served.server.store.watches
    going.close()
    async with asyncio.timeout(60):
        while watches.count_of(going.session_id):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
    assert watches.count_of(watching.session_id) == 5001
    watching.send(Op.CREATE, create_body("/both"))
    assert await event_of(watching) == (CREATED, "/both")


async def test_a_node_larger_than_a_frame_is_refused(served: Served) -> None:
    client = await served.client()
    client.send(Op.CREATE, create_body("/a", bytes(LARGEST_FRAME)))
    assert await client.rest() == b""
