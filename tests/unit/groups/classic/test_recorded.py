"""What Apache Kafka 4.3.1 answered to the script, classic groups answer too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.unit.groups.classic.harness import Broker
from tests.unit.groups.classic.scenario import SETTINGS, Call, Script, kafka_answers

from moldau.groups.client_info import ClientInfo
from moldau.groups.settings import GroupSettings
from moldau.wire.api import ApiKey
from moldau.wire.messages import decode_response, encode_response

SIZE_BYTES = 4


@dataclass
class VirtualCall:
    """An answer as its version carries it over the wire."""

    broker: Broker
    api: ApiKey
    version: int
    token: int

    def get(self) -> Any:
        while self.token not in self.broker.answers:
            deadline = self.broker.timeouts.next()
            assert deadline is not None, "the answer would never come"
            self.broker.advance(max(deadline - self.broker.now_ms, 0))
        frame = encode_response(self.api, self.version, 1, self.broker.answers[self.token])
        return decode_response(self.api, self.version, frame[SIZE_BYTES:])[1]

    def waits(self, for_ms: int) -> bool:
        self.broker.advance(for_ms)
        return self.token not in self.broker.answers


class VirtualCaller:
    """The groups of the harness, in its time."""

    def __init__(self) -> None:
        self.broker = Broker(
            GroupSettings(
                group_initial_rebalance_delay_ms=int(SETTINGS["group.initial.rebalance.delay.ms"]),
                group_max_size=int(SETTINGS["group.max.size"]),
            )
        )

    def send(self, api: ApiKey, version: int, request: Any) -> Call:
        broker, groups = self.broker, self.broker.groups
        token = broker.new_token()
        match api:
            case ApiKey.JOIN_GROUP:
                client = ClientInfo("app", "/127.0.0.1")
                outcome = groups.join(request, token, broker.now_ms, client, version)
            case ApiKey.SYNC_GROUP:
                outcome = groups.sync(request, token, broker.now_ms, version)
            case ApiKey.HEARTBEAT:
                outcome = groups.heartbeat(request, token, broker.now_ms)
            case _:
                outcome = groups.leave(request, token, broker.now_ms)
        broker.apply(outcome)
        return VirtualCall(broker, api, version, token)

    def sleep(self, ms: int) -> None:
        self.broker.advance(ms)

    def now_ms(self) -> int:
        return self.broker.now_ms


def test_the_answers_are_those_of_apache_kafka() -> None:
    assert Script(VirtualCaller()).run() == kafka_answers()
