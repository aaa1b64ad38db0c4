"""One private request to another broker, and its answer."""

from __future__ import annotations

from typing import Any

from moldau.net.broker_connection import BrokerConnection
from moldau.wire.private import VERSION, PrivateApi, decode_answer, encode_request


async def ask(
    connection: BrokerConnection, api: PrivateApi, body: object, *, answer: Any, within: float
) -> Any:
    """Returns the result, an object of type ``answer``; raises KafkaError."""

    def encode(_version: int, correlation_id: int, client_id: str) -> list[bytes]:
        return [encode_request(api, correlation_id, client_id, body)]

    def decode(_version: int, frame: memoryview) -> Any:
        return decode_answer(frame, answer)

    return await connection.exchange_unadvertised(VERSION, encode, decode, within=within)
