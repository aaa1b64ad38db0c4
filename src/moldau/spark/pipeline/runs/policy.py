"""Trying again after a failure: which ones may pass by themselves, and how long to wait."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from moldau.errors import ErrorCode
from moldau.spark.pipeline.failures import PipelineFailedError
from moldau.spark.pipeline.problems import PipelineError
from moldau.spark.pipeline.spec import Restart

_PASSING_KINDS: Final = frozenset(("unreachable", "late", "lost"))

_NEVER: Final = frozenset(("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"))
"""Clients may ask again at once, since metadata may be old; a pipeline has done so for long."""

_CODES: Final = tuple(
    rf"\b{code.name}\b" for code in ErrorCode if code.retriable and code.name not in _NEVER
)
_SPARK: Final = (
    r"\bExecutorLostFailure\b",
    r"Executor heartbeat timed out",
    r"Master removed our application",
    r"All masters are unresponsive",
    r"SparkContext (?:was shut|has been shut|is shut)",
    r"\bFetchFailed(?:Exception)?\b",
    r"\bjava\.net\.(?:Connect|Socket|NoRouteToHost|SocketTimeout)Exception\b",
    r"\bStatusCode\.UNAVAILABLE\b",
)
_ELSEWHERE: Final = (
    r"\bConnection(?:Refused|Reset|Aborted)?Error\b",
    r"\bConnection (?:refused|reset|timed out)",
    r"\bBrokenPipeError\b",
    r"\bOperationalError\b",  # of databases: away, restarting, locked
    r"\bDatabaseAwayError\b",  # of sources of changes
)
_PASSING: Final = re.compile("|".join((*_CODES, *_SPARK, *_ELSEWHERE)))
_TRACE: Final = "Traceback (most recent call last):"


def may_pass(error: PipelineFailedError | PipelineError) -> bool:
    """Whether it is worth to try again: nobody has to change anything for it to go away.

    Bad SQL, schemas, records that cannot be read, lost data and missing topics stay as they are.
    """
    if isinstance(error, PipelineError):
        return all(one.kind in _PASSING_KINDS for one in error.problems)
    if error.kind != "wrong":
        return error.kind in _PASSING_KINDS
    return any(_PASSING.search(text) for text in _told(error))


def delay(policy: Restart, failures: int) -> float | None:
    """Seconds until the next attempt after so many failures in a row; None if that is enough."""
    if policy.attempts is not None and failures > policy.attempts:
        return None
    doubled: float = policy.backoff * 2.0 ** min(failures - 1, 32)
    return min(doubled, float(max(policy.backoff, policy.max_backoff))) / 1000


def _told(error: BaseException) -> Iterator[str]:
    """What was said, of a traceback its end only: others on the way may name anything."""
    cause: BaseException | None = error
    while cause is not None:
        yield str(cause).rpartition(_TRACE)[2]
        cause = cause.__cause__
