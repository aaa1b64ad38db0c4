"""Session after session, each with a registration of its own."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.support.memory_storage import MemoryStorage

from moldau.coordination import cluster, paths
from moldau.coordination.embedded import EmbeddedStore
from moldau.coordination.embedded_session import EmbeddedSession
from moldau.coordination.errors import StoreUnavailableError
from moldau.coordination.membership import Membership
from moldau.coordination.znodes import BrokerRegistration, decode_broker
from moldau.errors import ErrorCode, KafkaError
from moldau.testing.clock import ManualClock


class Member:
    def __init__(self, store: EmbeddedStore, intact_since: int = -1) -> None:
        self.store = store
        self.clock = ManualClock()
        self.sessions: list[EmbeddedSession] = []
        self.failures = 0
        """How many attempts at a session fail."""
        self.early_ends = 0
        """How many sessions end while the broker joins."""
        self.news: list[str] = []
        self.intact_since = intact_since
        self.membership = Membership(
            self.open_session,
            self.describe,
            30,
            self.clock,
            Random(1),
            on_left=lambda: self.news.append("left"),
            on_joined=lambda: self.news.append("joined"),
        )

    def open_session(self) -> EmbeddedSession:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailableError("not now")
        self.sessions.append(self.store.session())
        return self.sessions[-1]

    async def describe(self) -> BrokerRegistration:
        if self.early_ends:
            self.early_ends -= 1
            await self.store.expire(self.sessions[-1])
        return BrokerRegistration(7, (), intact_since=self.intact_since)

    async def settle(self) -> None:
        for _ in range(100):
            await asyncio.sleep(0)

    async def registered(self) -> BrokerRegistration:
        data, stat = await self.store.session().get(paths.broker_id(7))
        return decode_broker(7, data, stat.czxid)


async def run_here(work, /, *args, **named):  # type: ignore[no-untyped-def]
    await asyncio.sleep(0)
    return work(*args, **named)


@pytest.fixture
async def member() -> Member:
    return Member(await EmbeddedStore.open(MemoryStorage(), run_here, lambda: 1))


async def test_a_broker_is_known_by_the_epoch_of_its_registration(member: Member) -> None:
    assert member.membership.broker_epoch == -1
    await member.membership.join()
    registered = await member.registered()
    assert registered.epoch == member.membership.broker_epoch > 0
    assert registered == member.membership.registration
    assert registered.intact_since == registered.epoch, "nothing is known of earlier lives"
    await member.membership.leave()
    assert await member.store.session().exists(paths.broker_id(7)) is None
    assert member.news == []


async def test_what_it_has_lost_stays_known_through_sessions(member: Member) -> None:
    member.intact_since = 3
    await member.membership.join()
    assert (await member.registered()).intact_since == 3


async def test_it_joins_again_after_every_session_until_it_leaves(member: Member) -> None:
    await member.membership.join()
    epochs = [member.membership.broker_epoch]
    for _ in range(3):
        await member.store.expire(member.sessions[-1])
        await member.settle()
        epochs.append(member.membership.broker_epoch)
    assert member.news == ["left", "joined"] * 3
    assert epochs == sorted(set(epochs))
    await member.membership.leave()
    await member.settle()
    assert member.news == ["left", "joined"] * 3


async def test_what_keeps_it_out_is_tried_again(member: Member) -> None:
    await member.membership.join()
    member.failures = 2
    await member.store.expire(member.sessions[-1])
    await member.settle()
    assert member.news == ["left"]
    for _ in range(2):
        member.clock.advance(1)
        await member.settle()
    assert member.news == ["left", "joined"]


@pytest.mark.parametrize("found", [None, "another"])
async def test_it_does_not_join_a_store_that_is_not_its_clusters_any_more(
    member: Member, found: str | None
) -> None:
    operator = member.store.session()
    await cluster.prepare(operator)
    await cluster.ensure_cluster_id(operator, "ours")
    await member.membership.join()
    await operator.delete(paths.CLUSTER_ID)
    if found is not None:
        await cluster.ensure_cluster_id(operator, found)
    await member.store.expire(member.sessions[-1])
    for _ in range(3):
        await member.settle()
        member.clock.advance(1)
    assert member.news == ["left"]
    assert await operator.exists(paths.broker_id(7)) is None

    if found is not None:
        await operator.delete(paths.CLUSTER_ID)
    await cluster.ensure_cluster_id(operator, "ours")
    for _ in range(3):
        await member.settle()
        member.clock.advance(1)
    assert member.news == ["left", "joined"]


async def test_a_session_that_ends_too_early_is_followed_by_another(member: Member) -> None:
    member.early_ends = 2
    joining = asyncio.ensure_future(member.membership.join())
    for _ in range(3):
        await member.settle()
        member.clock.advance(1)
    await joining
    assert len(member.sessions) == 3
    assert (await member.registered()).epoch == member.membership.broker_epoch
    assert member.news == [], "nobody was told that it had joined"


async def test_another_broker_of_its_id_keeps_it_out(member: Member) -> None:
    await member.membership.join()
    other = Member(member.store)
    with pytest.raises(KafkaError) as caught:
        await other.membership.join()
    assert caught.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    await other.membership.leave()
    assert (await member.registered()).epoch == member.membership.broker_epoch


async def test_it_waits_for_as_long_as_the_store_keeps_its_earlier_life(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    await member.membership.join()
    monkeypatch.setattr(EmbeddedSession, "session_timeout_ms", 600_000)
    other = Member(member.store)
    joining = asyncio.ensure_future(other.membership.join())
    await asyncio.wait([joining], timeout=0.1)
    assert not joining.done(), "though it asked for sessions of 30 ms"
    await member.membership.leave()
    async with asyncio.timeout(60):
        await joining
    await other.membership.leave()


async def test_it_can_leave_while_it_tries_to_join_again(member: Member) -> None:
    await member.membership.join()
    member.failures = 1_000
    await member.store.expire(member.sessions[-1])
    await member.settle()
    await member.membership.leave()
    assert member.clock.pending == 0
