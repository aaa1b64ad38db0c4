"""The headers of records in retry and dead-letter topics: where they come from and what went wrong.

All values are UTF-8 text, numbers in decimal. A record's own headers are kept before them.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from moldau.records.consumer_record import ConsumerRecord

Header = tuple[str, bytes | None]

SOURCE_TOPIC: Final = "moldau.source.topic"
SOURCE_PARTITION: Final = "moldau.source.partition"
SOURCE_OFFSET: Final = "moldau.source.offset"
SOURCE_TIMESTAMP: Final = "moldau.source.timestamp"
SOURCE_TOPIC_ID: Final = "moldau.source.topic.id"
SOURCE_READ_UNTIL: Final = "moldau.source.read.until"
GROUP: Final = "moldau.group"
PIPELINE: Final = "moldau.pipeline"
ATTEMPTS: Final = "moldau.attempts"
EXCEPTION: Final = "moldau.error.exception"
MESSAGE: Final = "moldau.error.message"
TRACEBACK: Final = "moldau.error.traceback"
FAILED_AT: Final = "moldau.error.timestamp"
RETRY_DELAY: Final = "moldau.retry.delay.ms"
RETRY_DUE: Final = "moldau.retry.due"
REDRIVEN_FROM: Final = "moldau.redriven.from"

_OURS: Final = frozenset(
    {
        SOURCE_TOPIC,
        SOURCE_PARTITION,
        SOURCE_OFFSET,
        SOURCE_TIMESTAMP,
        SOURCE_TOPIC_ID,
        SOURCE_READ_UNTIL,
        GROUP,
        PIPELINE,
        ATTEMPTS,
        EXCEPTION,
        MESSAGE,
        TRACEBACK,
        FAILED_AT,
        RETRY_DELAY,
        RETRY_DUE,
    }
)

_TRACEBACK_TAIL: Final = 4_000
_MESSAGE_TAIL: Final = 1_000


class Source(NamedTuple):
    """The first topic that a record was read from, whatever topics it went through since."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Failure(NamedTuple):
    """Why a record is in a retry or dead-letter topic."""

    source: Source
    group: str
    attempts: int
    """All calls of the handler, in all topics."""
    exception: str
    message: str
    traceback: str
    failed_at: int
    pipeline: str = ""
    """Its name, where one has read the record."""
    topic_id: str = ""
    """Of the source, where it is known."""
    read_until: int = 0
    """From here on, no record of the partition had been read; 0 if that is not known."""


class Retry(NamedTuple):
    """What a retry topic says about a record."""

    failure: Failure
    delay_ms: int
    due_ms: int


def read_failure(headers: Iterable[Header]) -> Failure | None:
    """What the headers of a dead letter say; None if they are not those of one."""
    text = _texts(headers)
    try:
        return Failure(
            Source(
                text[SOURCE_TOPIC],
                int(text[SOURCE_PARTITION]),
                int(text[SOURCE_OFFSET]),
                int(text[SOURCE_TIMESTAMP]),
            ),
            text[GROUP],
            int(text[ATTEMPTS]),
            text[EXCEPTION],
            text[MESSAGE],
            text[TRACEBACK],
            int(text[FAILED_AT]),
            text.get(PIPELINE, ""),
            text.get(SOURCE_TOPIC_ID, ""),
            int(text.get(SOURCE_READ_UNTIL, 0)),
        )
    except (KeyError, ValueError):
        return None


def read_retry(headers: Sequence[Header]) -> Retry | None:
    """What the headers of a record in a retry topic say."""
    text = _texts(headers)
    failure = read_failure(headers) if RETRY_DUE in text else None
    if failure is None:
        return None
    try:
        return Retry(failure, int(text[RETRY_DELAY]), int(text[RETRY_DUE]))
    except (KeyError, ValueError):
        return None


def source_of(record: ConsumerRecord) -> Source:
    """Where a record that a handler got comes from: itself, unless it is in a retry topic."""
    retry = read_retry(record.headers)
    if retry is not None:
        return retry.failure.source
    return Source(record.topic, record.partition, record.offset, record.timestamp)


def failed(
    record: ConsumerRecord, error: BaseException, *, group: str, attempts: int, now_ms: int
) -> Failure:
    """``attempts`` are the calls since the record was read; those before are in its headers."""
    retry = read_retry(record.headers)
    earlier = retry.failure.attempts if retry is not None else 0
    kind = type(error)
    return Failure(
        source_of(record),
        group,
        earlier + attempts,
        f"{kind.__module__}.{kind.__qualname__}",
        str(error)[:_MESSAGE_TAIL],
        "".join(traceback.format_exception(error))[-_TRACEBACK_TAIL:],
        now_ms,
    )


def write_failure(headers: Iterable[Header], failure: Failure) -> list[Header]:
    """A record's own headers, and then the failure."""
    source = failure.source
    return [
        *own_headers(headers),
        (SOURCE_TOPIC, source.topic.encode()),
        (SOURCE_PARTITION, _number(source.partition)),
        (SOURCE_OFFSET, _number(source.offset)),
        (SOURCE_TIMESTAMP, _number(source.timestamp)),
        *([(SOURCE_TOPIC_ID, failure.topic_id.encode())] if failure.topic_id else ()),
        *([(SOURCE_READ_UNTIL, _number(failure.read_until))] if failure.read_until else ()),
        (GROUP, failure.group.encode()),
        *([(PIPELINE, _utf8(failure.pipeline))] if failure.pipeline else ()),
        (ATTEMPTS, _number(failure.attempts)),
        (EXCEPTION, _utf8(failure.exception)),
        (MESSAGE, _utf8(failure.message)),
        (TRACEBACK, _utf8(failure.traceback)),
        (FAILED_AT, _number(failure.failed_at)),
    ]


def write_retry(headers: Iterable[Header], retry: Retry) -> list[Header]:
    return [
        *write_failure(headers, retry.failure),
        (RETRY_DELAY, _number(retry.delay_ms)),
        (RETRY_DUE, _number(retry.due_ms)),
    ]


def own_headers(headers: Iterable[Header]) -> list[Header]:
    """The headers that the record had before it failed."""
    return [header for header in headers if header[0] not in _OURS]


def _texts(headers: Iterable[Header]) -> dict[str, str]:
    return {
        name: value.decode("utf-8", "replace")
        for name, value in headers
        if name in _OURS and value is not None
    }


def _number(number: int) -> bytes:
    return b"%d" % number


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
