"""Metrics: what an operator can ask a broker for, by the names that Kafka's metrics have in JMX.

A metric is a name and a way to read its value. Nothing is stored and nothing costs anything until
somebody asks: gauges read state that is there anyway, counters are plain numbers of their owners.
``render`` gives Prometheus' text format, under the names that the usual JMX exporter makes of
Kafka's, so that dashboards and alerts made for Kafka find them. The format is a few lines of code;
prometheus-client would add 16 ms and 40 modules to the start of a broker, to write the same text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Reading: TypeAlias = float | Mapping[str, float]
"""One value, or one for each value of a tag."""

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Kind(StrEnum):
    COUNTER = "counter"
    """Only grows while the broker runs."""
    GAUGE = "gauge"


class Metric(NamedTuple):
    jmx_name: str
    """Without the tag: ``kafka.log:type=LogManager,name=OfflineLogDirectoryCount``."""
    kind: Kind
    doc: str
    read: Callable[[], Reading]
    tag: str = ""
    """What the values are for, if there are several: ``logDirectory``."""

    @property
    def name(self) -> str:
        """As Prometheus knows it: ``kafka_log_logmanager_offlinelogdirectorycount``."""
        domain, _, properties = self.jmx_name.partition(":")
        parts = [domain, *(one.partition("=")[2] for one in properties.split(","))]
        name = _NOT_IN_NAMES.sub("_", "_".join(parts).lower())
        if self.kind is Kind.COUNTER:
            name = name.removesuffix("persec") + "_total"
        return name


class Registry:
    """The metrics of one broker."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._metrics.values())

    def gauge(self, jmx_name: str, doc: str, read: Callable[[], Reading], *, tag: str = "") -> None:
        self._add(Metric(jmx_name, Kind.GAUGE, doc, read, tag))

    def counter(
        self, jmx_name: str, doc: str, read: Callable[[], Reading], *, tag: str = ""
    ) -> None:
        self._add(Metric(jmx_name, Kind.COUNTER, doc, read, tag))

    def _add(self, metric: Metric) -> None:
        if metric.name in self._metrics:
            raise ValueError(f"{metric.name} is there already")
        self._metrics[metric.name] = metric

    def render(self) -> str:
        """Everything, as it is now."""
        return "".join(_render(metric) for metric in self)


def _render(metric: Metric) -> str:
    name, reading = metric.name, metric.read()
    lines = [f"# HELP {name} {metric.doc}\n# TYPE {name} {metric.kind}\n"]
    if isinstance(reading, Mapping):
        lines += [
            f'{name}{{{metric.tag}="{tagged.translate(_ESCAPES)}"}} {value:.17g}\n'
            for tagged, value in reading.items()
        ]
    else:
        lines.append(f"{name} {reading:.17g}\n")
    return "".join(lines)
