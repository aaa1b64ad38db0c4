"""A script of raw group requests: Moldau answers, error for error, what Apache Kafka 4.3.1 did."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from tests.support.kept_time import in_kept_time
from tests.support.target import Target
from tests.unit.groups.classic.scenario import SETTINGS, Answer, Call, Script, kafka_answers

from moldau.wire.api import ApiKey
from moldau.wire.make import make
from moldau.wire.messages import decode_response, encode_request

PATIENCE_S = 60.0
GROUP_TYPE = 0


class SocketCall:
    def __init__(self, address: tuple[str, int], api: ApiKey, version: int, request: Any) -> None:
        self._api, self._version = api, version
        self._response: Any = None
        self._socket = socket.create_connection(address)
        self._socket.sendall(encode_request(api, version, 1, "app", request))

    def get(self) -> Any:
        if self._response is None:
            self._socket.settimeout(PATIENCE_S)
            (size,) = struct.unpack(">i", self._read(4))
            self._response = decode_response(self._api, self._version, self._read(size))[1]
            self._socket.close()
        return self._response

    def waits(self, for_ms: int) -> bool:
        self._socket.settimeout(for_ms / 1000)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        return False

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self._socket.recv(size - len(data)) or self._closed()
        return data

    def _closed(self) -> bytes:
        raise EOFError("the broker closed the connection")


class SocketCaller:
    """Asks the first broker, until it is told another."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.split(",")[0].rpartition(":")
        self.address = (host, int(port))

    def send(self, api: ApiKey, version: int, request: Any) -> Call:
        return SocketCall(self.address, api, version, request)

    def sleep(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


def await_coordinator(caller: SocketCaller) -> None:
    """The first request creates ``__consumer_offsets``; then its partitions have to be loaded.
    Whoever coordinates the groups, all of them, is asked from then on.
    """
    keys = tuple(f"group {number}" for number in range(20))
    find = make(FindCoordinatorRequest, key_type=GROUP_TYPE, coordinator_keys=keys)
    deadline = caller.now_ms() + PATIENCE_S * 1000
    while caller.now_ms() < deadline:
        found = caller.send(ApiKey.FIND_COORDINATOR, 6, find).get()
        if not any(c.error_code for c in found.coordinators):
            (caller.address,) = {(c.host, c.port) for c in found.coordinators}
            script = Script(caller)
            if not any(
                script.join(key).get().error_code.name.startswith(("COORDINATOR", "NOT_COORD"))
                for key in keys
            ):
                return
        caller.sleep(200)
    raise TimeoutError("no coordinator")


def test_the_answers_are_those_of_apache_kafka(
    new_target: Callable[[dict[str, str]], Target],
) -> None:
    def run() -> list[Answer]:
        caller = SocketCaller(new_target(SETTINGS).bootstrap)
        await_coordinator(caller)
        return Script(caller).run()

    assert in_kept_time(run, kafka_answers()) == kafka_answers()
