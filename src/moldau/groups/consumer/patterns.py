"""Patterns of topic names."""

from __future__ import annotations

import re

from moldau.errors import ErrorCode, KafkaError


class Pattern:
    def __init__(self, text: str) -> None:
        try:
            self._re = re.compile(text)
        except re.error as error:
            raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from None

    def matches(self, name: str) -> bool:
        return self._re.fullmatch(name) is not None


def compile_pattern(text: str) -> Pattern:
    return Pattern(text)
