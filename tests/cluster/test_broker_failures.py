"""A handler that fails: its connection closes, a traceback is in the log, nobody else suffers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.in_process import InProcessBroker, eventually
from tests.support.wire import ConnectionClosedError, WireClient, one_batch

from moldau.broker.router import Router
from moldau.wire.api import ApiKey


def router_of(broker: InProcessBroker) -> Router:
    router = broker.server._listeners[0]._handler
    assert isinstance(router, Router)
    return router


def fail(*_: object) -> Any:
    raise RuntimeError("a bug")


async def fail_later(*_: object) -> Any:
    raise RuntimeError("a bug")


async def answer_nonsense(*_: object) -> Any:
    return "not a message"


@pytest.mark.parametrize("handler", [fail, fail_later, answer_nonsense])
async def test_a_bug_in_a_handler_closes_the_connection_that_found_it(
    broker: InProcessBroker,
    client: WireClient,
    handler: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    router_of(broker)._handlers[ApiKey.DESCRIBE_CLUSTER] = handler
    unlucky = await broker.connect()
    unlucky.send(ApiKey.DESCRIBE_CLUSTER, endpoint_type=1)
    with pytest.raises(ConnectionClosedError):
        await unlucky.read_frame()
    failures = [record for record in caplog.records if record.exc_info]
    assert len(failures) == 1
    assert "127.0.0.1" in failures[0].getMessage()
    await client.create_topic("t")
    assert (await client.produce("t", one_batch(b"v"))).error_code == 0
    await eventually(lambda: broker.connections == 1)


async def test_a_client_that_left_before_its_answer_bothers_nobody(
    broker: InProcessBroker, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    await client.create_topic("t")
    for _ in range(20):
        hasty = await broker.connect()
        hasty.send(ApiKey.METADATA, topics=None)
        hasty.send(ApiKey.CREATE_PARTITIONS, topics=[{"name": "t", "count": 1}])
        hasty.abort()
    await eventually(lambda: broker.connections == 1)
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_pipeline_of_costly_requests_does_not_hold_up_others(
    broker: InProcessBroker, client: WireClient
) -> None:
    handled: list[str] = []
    router = router_of(broker)
    describe_cluster = router._handler(ApiKey.DESCRIBE_CLUSTER)

    def note(context: Any, request: Any) -> Any:
        handled.append("many" if request.include_fenced_brokers else "one")
        return describe_cluster(context, request)

    router._handlers[ApiKey.DESCRIBE_CLUSTER] = note
    other = await broker.connect()
    await other.call(ApiKey.API_VERSIONS, 0)  # it has been let in
    many = [
        client.send(ApiKey.DESCRIBE_CLUSTER, endpoint_type=1, include_fenced_brokers=True)
        for _ in range(100)
    ]
    one = other.send(ApiKey.DESCRIBE_CLUSTER, endpoint_type=1)
    await other.receive(ApiKey.DESCRIBE_CLUSTER, one)
    for sent in many:
        await client.receive(ApiKey.DESCRIBE_CLUSTER, sent)
    assert handled.count("many") == 100
    assert handled.index("one") < 10
