"""Whatever peers and handlers do: what counts is what is held, and who is honest is answered."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from tests.support.limited_memory import Broker, Peer
from tests.support.memory_network import frame

from moldau.machine.network import Part
from moldau.net.connection import Pending, ServerConnection
from moldau.net.frames import KIB, MIB

PARKED, COPIED, TURN, MUTED, UNANSWERED, CLOSING, FAILING, FINISHING, ABORTING = range(9)
"""What the first byte of a request asks for; all others are answered at once."""
HARMLESS = (PARKED, COPIED, TURN, MUTED, UNANSWERED, 100, 101, 102)


class Scenario:
    """A broker, peers of which every other one is honest, and what happens to them."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.scratch_size = random.choice([KIB, 64 * KIB])
        size = random.choice([1, 3000, 20_000, 300_000, MIB, 4 * MIB])
        self.broker = Broker(size, handler=self.handle, scratch_size=self.scratch_size)
        self.copied = 0
        self.parked: list[tuple[Pending, list[bytes], int]] = []
        peers = [self.broker.connect() for _ in range(random.randint(2, 8))]
        self.honest, self.others = peers[::2], peers[1::2]
        self.expected: list[list[bytes]] = []
        for peer in self.honest:
            requests = [self.request(HARMLESS) for _ in range(random.randint(1, 8))]
            peer.unread = b"".join(map(frame, requests))
            self.expected.append([r for r in requests if r[0] != UNANSWERED])
        for peer in self.others:
            requests = [self.request(range(12)) for _ in range(random.randint(1, 8))]
            peer.unread = b"".join(map(frame, requests)) + random.choice([b"", b"GET / HTTP"])

    def request(self, kinds: Sequence[int]) -> bytes:
        random = self.random
        little = self.scratch_size // 16
        largest = random.choice([100, little, 2 * self.scratch_size, 500_000])
        size = random.choice([little - 4, random.randint(1, largest)])
        return bytes([random.choice(kinds)]) * size

    def handle(
        self, connection: ServerConnection, request: memoryview
    ) -> Sequence[Part] | Pending | None:
        kind, answer = request[0], [frame(bytes(request))]
        if kind in (PARKED, COPIED):
            size = len(request) if kind == COPIED else 0
            self.count(size)
            self.parked.append((Pending(), answer, size))
            return self.parked[-1][0]
        if kind == TURN:
            connection.end_turn()
        elif kind == MUTED:
            connection.mute(self.random.choice([1, 3]), self.broker.clock)
        elif kind == CLOSING:
            connection.close()
        elif kind == FAILING:
            raise RuntimeError("for this test")
        elif kind == FINISHING:
            connection.finish()
        elif kind == ABORTING:
            connection.abort()
        return None if kind == UNANSWERED else answer

    def count(self, change: int) -> None:
        self.copied += change
        self.broker.memory.count(change)

    def complete_one(self) -> None:
        if self.parked:
            pending, answer, size = self.parked.pop(self.random.randrange(len(self.parked)))
            self.count(-size)
            pending.complete(answer)

    def send(self, peer: Peer, nbytes: int) -> None:
        peer.unread = peer.send(peer.unread[:nbytes]) + peer.unread[nbytes:]

    def lose(self, peer: Peer) -> None:
        if not peer.receiver.closed:
            peer.close()
            peer.receiver.connection_lost(self.random.choice([None, ConnectionResetError()]))

    def step(self) -> None:
        random = self.random
        peer = random.choice(self.broker.peers)
        match random.choices(range(6), (12, 3, 1, 1, 2, 1))[0]:
            case 0:
                self.send(peer, random.choice([1, 3, 100, 5000, 70_000, 500_000]))
            case 1:
                self.complete_one()
            case 2:
                self.broker.clock.advance(1)
            case 3:
                peer.receiver.pause_writing()
            case 4:
                peer.receiver.resume_writing()
            case _ if peer in self.others and not peer.receiver.closed:
                receiver = peer.receiver
                ends = (lambda: self.lose(peer), receiver.abort, receiver.finish, receiver.close)
                random.choice(ends)()
        if random.random() < 0.5:
            self.broker.run()
        if random.random() < 0.5:
            self.lose_closed()
        self.check()

    def lose_closed(self) -> None:
        for peer in self.broker.peers:
            if peer.is_closing:
                self.lose(peer)

    def check(self) -> None:
        memory, scratch = self.broker.memory, self.broker.pool.scratch
        assert memory.used == self.copied + sum(peer.held for peer in self.broker.peers)
        for peer in self.broker.peers:
            reader = peer.receiver._reader
            if reader._view is scratch:
                assert reader.held == 0
            else:
                assert reader.held >= len(reader._view)
            assert (reader in memory._waiting) <= peer.waits
            assert peer.waits <= (reader in memory._waiting or peer.receiver.is_closing)
            assert peer.reading == (not peer.receiver.blocked) or peer.is_closing

    def finish(self) -> None:
        """Those who are not honest end or fall silent; the others send all they have."""
        for peer in self.others:
            peer.receiver.resume_writing()
            if self.random.random() < 0.5:
                self.lose(peer)
        for _ in range(300):
            for peer in self.honest:
                peer.receiver.resume_writing()
                self.send(peer, MIB)
                self.broker.run()
                self.check()
            self.complete_one()
            self.broker.clock.advance(0.5)
            self.lose_closed()


@pytest.mark.parametrize("seed", range(60))
def test_what_is_counted_is_held_and_who_is_honest_is_answered(seed: int) -> None:
    scenario = Scenario(seed)
    for _ in range(scenario.random.randint(10, 150)):
        scenario.step()
    scenario.finish()
    for peer, expected in zip(scenario.honest, scenario.expected, strict=True):
        assert peer.answers == expected
    for peer in scenario.broker.peers:
        scenario.lose(peer)
    while scenario.parked:
        scenario.complete_one()
    memory = scenario.broker.memory
    assert (memory.used, memory.waiting, memory.is_depleted) == (0, 0, False)
    assert scenario.broker.clock.pending == 0
