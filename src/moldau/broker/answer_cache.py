"""A few encoded answers, all dropped when the version that they were made for passes.

Bounded in number and in bytes, requests included: what is asked for is up to the clients.
"""

from __future__ import annotations

MAX_ANSWERS = 256
MAX_BYTES = 16 * 1024 * 1024

Key = tuple[int, str, bytes]
"""API version, listener, and the body of the request."""


class AnswerCache:
    def __init__(self, max_answers: int = MAX_ANSWERS, max_bytes: int = MAX_BYTES) -> None:
        self._max_answers = max_answers
        self._max_bytes = max_bytes
        self._version = -1
        self._bytes = 0
        self._answers: dict[Key, bytes] = {}

    def get(self, key: Key, version: int) -> bytes | None:
        return self._answers.get(key) if version == self._version else None

    def put(self, key: Key, version: int, answer: bytes) -> None:
        size = len(key[2]) + len(answer)
        if size > self._max_bytes:
            return
        if (
            version != self._version
            or len(self._answers) >= self._max_answers
            or self._bytes + size > self._max_bytes
        ):
            self._answers.clear()
            self._bytes = 0
            self._version = version
        self._answers[key] = answer
        self._bytes += size
