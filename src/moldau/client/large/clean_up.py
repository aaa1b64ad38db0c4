"""Removing payloads that no record needs any more.

Nothing deletes a payload when retention deletes its record. So somebody has to look now and then:
by age, which is cheap and right for topics that delete by time; or by reading the topics for the
addresses that are still in them, which is right for all. Both leave young payloads alone: their
records may be on the way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from moldau.client.admin.async_admin import AsyncAdmin
from moldau.client.admin.types import ConfigResource
from moldau.client.cluster import Cluster
from moldau.client.consumer.partition_reader import PartitionReader, ReaderSettings
from moldau.client.large.claim_check import ClaimCheck, Storage, address_of
from moldau.client.offsets import OffsetSpec
from moldau.config.types import ResourceType
from moldau.errors import ErrorCode
from moldau.model import TopicPartition

YOUNG_MS: Final = 3_600_000
"""Payloads younger than this are never waste; longer than any delivery.timeout.ms."""


class Payload(NamedTuple):
    address: str
    topic: str
    created_ms: int
    size: int


def list_payloads(claims: ClaimCheck, topics: Collection[str] | None = None) -> list[Payload]:
    """What is in storage, by topic and time. Other files in the folder are left alone."""
    storage = claims.storage
    payloads = []
    for path, info in sorted(storage.files.find(storage.root, detail=True).items()):
        topic, _, name = path.removeprefix(storage.root).strip("/").rpartition("/")
        created, _, rest = name.partition("-")
        ours = topic and "/" not in topic and rest and created.isdecimal()
        if ours and (topics is None or topic in topics):
            payloads.append(Payload(storage.address(path), topic, int(created), info["size"]))
    return payloads


async def expired_payloads(
    claims: ClaimCheck,
    admin: AsyncAdmin,
    *,
    topics: Collection[str] | None = None,
    now_ms: int | None = None,
) -> list[Payload]:
    """Payloads whose records retention has deleted by now, whatever the log's segments were.

    A record can outlive ``retention.ms`` by as long as its segment takes to be closed,
    ``segment.ms``. Topics that compact, or keep records forever, have no expired payloads; all
    payloads of topics that do not exist are.
    """
    now = admin.machine.clock.now_ms() if now_ms is None else now_ms
    payloads = list_payloads(claims, topics)
    expired = []
    lives = await _lifetimes(admin, {payload.topic for payload in payloads})
    for payload in payloads:
        life = lives[payload.topic]
        if life is not None and now - payload.created_ms > max(life, YOUNG_MS):
            expired.append(payload)
    return expired


async def unreferenced_payloads(
    claims: ClaimCheck,
    cluster: Cluster,
    admin: AsyncAdmin,
    *,
    topics: Collection[str] | None = None,
    now_ms: int | None = None,
) -> list[Payload]:
    """Payloads that no record points to; reads all topics with payloads from end to end.

    All, because dead letters that were sent back point to payloads of the dead-letter topic.
    """
    now = admin.machine.clock.now_ms() if now_ms is None else now_ms
    payloads = [p for p in list_payloads(claims) if now - p.created_ms > YOUNG_MS]
    needed: set[str] = set()
    for topic in sorted({payload.topic for payload in payloads}):
        needed |= await _addresses_in(cluster, admin, topic)
    return [
        payload
        for payload in payloads
        if payload.address not in needed and (topics is None or payload.topic in topics)
    ]


def delete_payloads(storage: Storage, payloads: Iterable[Payload]) -> int:
    """Delete them; returns how many were there."""
    count = 0
    for payload in payloads:
        try:
            storage.files.rm_file(payload.address)
        except FileNotFoundError:
            continue
        count += 1
    return count


async def _lifetimes(admin: AsyncAdmin, topics: set[str]) -> dict[str, int | None]:
    """Milliseconds that records of each topic can live; None for topics without a limit."""
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in sorted(topics)]
    lives: dict[str, int | None] = {}
    for outcome in await admin.describe_configs(resources) if resources else []:
        if outcome.error is not None:
            if outcome.error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise outcome.error
            lives[outcome.name] = 0
            continue
        values = {entry.name: entry.value or "" for entry in outcome.get()}
        retention = int(values["retention.ms"])
        by_time = "delete" in values["cleanup.policy"] and "compact" not in values["cleanup.policy"]
        limited = by_time and retention >= 0
        lives[outcome.name] = retention + int(values["segment.ms"]) if limited else None
    return lives


async def _addresses_in(cluster: Cluster, admin: AsyncAdmin, topic: str) -> set[str]:
    (described,) = await admin.describe_topics([topic])
    if described.value is None:
        if described.error and described.error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise described.error
        return set()
    partitions = [TopicPartition(topic, number) for number in described.value.partitions]
    first = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    end = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    addresses: set[str] = set()
    async with PartitionReader(
        cluster,
        {partition: at.offset for partition, at in first.items()},
        until={partition: at.offset for partition, at in end.items()},
        settings=ReaderSettings(out_of_range="earliest"),
    ) as reader:
        async for _, records, _ in reader:
            addresses.update(filter(None, map(address_of, records)))
    return addresses
