"""Settings of groups take effect on members that are there already."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from tests.support.groups import FAST_GROUPS, find_coordinator
from tests.support.in_process import InProcessBroker, eventually
from tests.support.wire import WireClient

from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey
from moldau.wire.primitives import error_from

GROUP = "g"
SETTINGS = {
    **FAST_GROUPS,
    "group.consumer.min.session.timeout.ms": "50",
    "group.consumer.min.heartbeat.interval.ms": "10",
}
GROUP_RESOURCE = 32
SET, DELETE = 0, 1


async def heartbeat(client: WireClient, member_id: str, epoch: int) -> Any:
    return await client.call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout=timedelta(minutes=1) if epoch == 0 else timedelta(milliseconds=-1),
        subscribed_topic_names=["t"] if epoch == 0 else None,
        topic_partitions=[] if epoch == 0 else None,
    )


async def change(client: WireClient, **settings: str | None) -> None:
    configs = [
        {
            "name": f"consumer.{name.replace('_', '.')}",
            "config_operation": DELETE if value is None else SET,
            "value": value,
        }
        for name, value in settings.items()
    ]
    answer = await client.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        resources=[{"resource_type": GROUP_RESOURCE, "resource_name": GROUP, "configs": configs}],
    )
    assert error_from(answer.responses[0].error_code) is ErrorCode.NONE


@pytest.mark.parametrize("broker", [SETTINGS], indirect=True)
async def test_with_the_next_heartbeat(broker: InProcessBroker, client: WireClient) -> None:
    await find_coordinator(client, GROUP)
    member_id = str(uuid4())
    joined = await heartbeat(client, member_id, 0)
    assert joined.error_code is ErrorCode.NONE
    default = timedelta(milliseconds=5000)
    assert joined.heartbeat_interval == default

    await change(client, heartbeat_interval_ms="20", session_timeout_ms="60")
    answer = await heartbeat(client, member_id, joined.member_epoch)
    assert answer.heartbeat_interval == timedelta(milliseconds=20)
    # Nobody reports for longer than a session now.
    (host,) = (h for h in broker.parts.groups.hosts if h.shard.list_groups())
    await eventually(
        lambda: [str(one.group_state) for one in host.shard.list_groups()] == ["Empty"],
        "the end of the session",
    )

    await change(client, heartbeat_interval_ms=None, session_timeout_ms=None)
    again = await heartbeat(client, member_id, 0)
    assert again.heartbeat_interval == default
