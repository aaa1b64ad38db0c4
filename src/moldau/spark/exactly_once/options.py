"""The options that begin with ``exactlyOnce.``, read and checked. No IO."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final, Literal, NamedTuple

from moldau.client.settings import ProducerSettings
from moldau.config.option import ConfigError
from moldau.config.options.transactions import TransactionOptions
from moldau.spark.options import OptionError, WriteOptions, parse_duration

OnLost = Literal["fail", "replay"]

OPTIONS: Final = ("transactionalIdPrefix", "transactionTimeout", "margin", "topic",
                  "onLostTransaction")  # fmt: skip
DEFAULT_PREFIX: Final = "moldau-spark"
DEFAULT_TOPIC: Final = "__moldau_spark_transactions"
DEFAULT_TIMEOUT: Final = TransactionOptions.transaction_max_timeout_ms.default / 1000
"""The default of the brokers' transaction.max.timeout.ms."""
_LONGEST_MARGIN: Final = 30.0
_ON_LOST: Final[dict[str, OnLost]] = {"fail": "fail", "replay": "replay"}


@dataclass(frozen=True)
class ExactlyOnceOptions:
    write: WriteOptions
    prefix: str
    """What all transactional ids begin with."""
    timeout: float
    """Seconds from the first row of a task to the commit of the batch."""
    margin: float
    """Seconds that must be left of ``timeout`` when a batch is decided."""
    topic: str
    """Of decisions."""
    on_lost: OnLost

    @property
    def client(self) -> Mapping[str, str]:
        return self.write.client


class QueryBatch(NamedTuple):
    """A batch, whenever and however often it is written."""

    query: str
    """What its decisions are kept under; each sink of a query has one of its own."""
    number: int


def batch_options(write: WriteOptions) -> tuple[ExactlyOnceOptions, QueryBatch]:
    """Those of a write in ``foreachBatch``: the same for all batches, and the batch."""
    given = dict(write.exactly_once or {})
    query, number = given.pop("query", ""), given.pop("batch", "")
    if not query or not number:
        raise OptionError(
            "Option exactlyOnce is for streaming queries; a write in foreachBatch also needs "
            "exactlyOnce.query, the same for all batches and for no other query or sink, and "
            "exactlyOnce.batch, the batch's number"
        )
    if not number.isdecimal():
        raise OptionError(f"Option exactlyOnce.batch must be a batch's number, not {number!r}")
    name = _name({"query": query}, "query", "")
    return exactly_once_options(replace(write, exactly_once=given)), QueryBatch(name, int(number))


def exactly_once_options(write: WriteOptions) -> ExactlyOnceOptions:
    given = write.exactly_once
    assert given is not None
    names = {name.lower(): name for name in OPTIONS}
    for name in given:
        if name not in names:
            close = get_close_matches(name, names, n=1)
            hint = names[close[0]] if close else ", ".join(OPTIONS)
            raise OptionError(f"There is no option exactlyOnce.{name}: did you mean {hint}?")
    timeout = _duration(given, "transactionTimeout", DEFAULT_TIMEOUT)
    margin = _duration(given, "margin", min(_LONGEST_MARGIN, timeout / 4))
    if margin >= timeout:
        raise OptionError("Option exactlyOnce.margin must be shorter than the transactionTimeout")
    on_lost = _ON_LOST.get(given.get("onlosttransaction", "fail").lower())
    if on_lost is None:
        raise OptionError("Option exactlyOnce.onLostTransaction must be fail or replay")
    try:
        ProducerSettings({**write.client, "transactional.id": DEFAULT_PREFIX})
    except ConfigError as error:
        raise OptionError(f"An option kafka.* does not go with exactlyOnce: {error}") from None
    return ExactlyOnceOptions(
        write,
        prefix=_name(given, "transactionalIdPrefix", DEFAULT_PREFIX),
        timeout=timeout,
        margin=margin,
        topic=_name(given, "topic", DEFAULT_TOPIC),
        on_lost=on_lost,
    )


def _duration(given: Mapping[str, str], name: str, default: float) -> float:
    value = given.get(name.lower())
    return default if value is None else parse_duration(f"exactlyOnce.{name}", value)


def _name(given: Mapping[str, str], name: str, default: str) -> str:
    value = given.get(name.lower(), default).strip()
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,150}", value):
        raise OptionError(
            f"Option exactlyOnce.{name} may have letters, digits, dots, - and _, not {value!r}"
        )
    return value
