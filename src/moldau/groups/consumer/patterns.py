"""Patterns of topic names in RE2's syntax, which Kafka's coordinator takes (KIP-848).

A pattern comes from a client and is matched against every topic on the coordinator's own loop, so
it must not be able to keep it busy. RE2 itself matches it, in time linear in the name. But linear
is not short by itself: RE2's time also grows with the pattern, so large ones are refused, see
``docs/adr/0012-patterns-by-re2.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from moldau.errors import ErrorCode, KafkaError

_MAX_WEIGHT: Final = 5000
"""The longest pattern, where what takes RE2 longer to read than a character weighs more."""
_CLASS_WEIGHT: Final = 100
"""Of a Unicode class: RE2 builds each of them anew, 0.3 ms and 30 KB."""
_COPY_WEIGHT: Final = 2
"""Of each copy that a counted repetition makes of what it repeats."""
_COUNTS: Final = re.compile(r"[{,](\d{1,4})", re.ASCII)
_PROGRAM_BYTES: Final = 512 << 10
"""What a pattern may come to when it is compiled."""
_AUTOMATON_BYTES: Final = 16 << 20
"""What RE2 may remember while it matches. With less it forgets, and takes a hundred times as long
for some of the patterns that are small enough."""


def check_pattern(pattern: str) -> None:
    """Raises INVALID_REGULAR_EXPRESSION if it is none, or too large a one."""
    matching(pattern, ())


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """Those names that the pattern matches as a whole. Raises INVALID_REGULAR_EXPRESSION."""
    import re2  # 8 ms and 4 MB that a broker without patterns need not spend

    try:
        fullmatch = _compiled(re2, pattern).fullmatch
        return frozenset(name for name in names if fullmatch(name.encode()))
    except re2.error as error:
        raise _invalid(pattern, error.args[0].decode(errors="replace")) from None
    finally:
        re2.purge()  # it would keep the last 128 patterns, each with its automaton


def _compiled(re2: Any, pattern: str) -> Any:
    if _weight(pattern) > _MAX_WEIGHT:
        raise _invalid(pattern[:100] + "…", "the pattern is too large")
    text = pattern.encode()
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.longest_match = True  # one automaton instead of two; to whole names it is all the same
    options.max_mem = _PROGRAM_BYTES
    re2.compile(text, options)
    options.max_mem = _AUTOMATON_BYTES
    return re2.compile(text, options)


def _weight(pattern: str) -> int:
    if len(pattern) > _MAX_WEIGHT:
        return len(pattern)
    classes = pattern.lower().count(r"\p")
    copies = sum(map(int, _COUNTS.findall(pattern)))
    return len(pattern) + _CLASS_WEIGHT * classes + _COPY_WEIGHT * copies


def _invalid(pattern: str, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}.",
    )
