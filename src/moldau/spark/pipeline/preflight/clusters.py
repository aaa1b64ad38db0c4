"""Brokers that answer, topics that are there or will be, transactions where they are needed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from moldau.client.admin.async_admin import AsyncAdmin
from moldau.client.admin.types import ConfigResource
from moldau.client.cluster import Cluster
from moldau.client.errors import ConnectionLostError, NoBrokersError, TimedOutError
from moldau.client.metadata import ClusterMetadata
from moldau.client.offsets import OffsetSpec
from moldau.config.types import ResourceType
from moldau.errors import ErrorCode, KafkaError
from moldau.spark.options import read_options
from moldau.spark.pipeline.checkpoint import Planned
from moldau.spark.pipeline.preflight.found import Findings, SourceIdentity
from moldau.spark.pipeline.preflight.reaching import UnwaitedThreads, reach
from moldau.spark.pipeline.problems import Kind, did_you_mean
from moldau.spark.pipeline.spec import Pipeline, TopicSink, TopicSource
from moldau.spark.pipeline.topics import connection_settings, reads_topic
from moldau.toml_places import Path

_AUTO_CREATE: Final = "auto.create.topics.enable"


@dataclass
class ClusterUse:
    """What uses one cluster, with the same login."""

    pipeline: Pipeline
    settings: dict[str, object]
    sources: list[TopicSource] = field(default_factory=list)
    sinks: list[TopicSink] = field(default_factory=list)

    @property
    def servers(self) -> str:
        return str(self.settings["bootstrap.servers"])

    @property
    def parts(self) -> list[TopicSource | TopicSink]:
        return [*self.sources, *self.sinks]

    @property
    def place(self) -> Path:
        """Of all who use it the first one is told: the address is one."""
        return self.pipeline.declared(self.parts[0], "bootstrap_servers", "options")


def clusters_of(pipeline: Pipeline) -> Collection[ClusterUse]:
    found: dict[frozenset[tuple[str, object]], ClusterUse] = {}
    for part in (*pipeline.sources, *pipeline.sinks):
        if isinstance(part, (TopicSource, TopicSink)):
            settings = connection_settings(part.options)
            use = found.setdefault(frozenset(settings.items()), ClusterUse(pipeline, settings))
            if isinstance(part, TopicSource):
                use.sources.append(part)
            else:
                use.sinks.append(part)
    return found.values()


def check_cluster(use: ClusterUse, planned: Planned, patience: float) -> Findings:
    """``patience``: for how many seconds a cluster may be silent."""

    async def run() -> Findings:
        asyncio.get_running_loop().set_default_executor(UnwaitedThreads())
        return await _Check(use, planned).run(patience)

    return asyncio.run(run())


class _Check:
    """All questions to one cluster."""

    def __init__(self, use: ClusterUse, planned: Planned) -> None:
        self._pipeline = use.pipeline
        self._use = use
        self._planned = planned
        self._metadata = ClusterMetadata()
        self._found = Findings()

    async def run(self, patience: float) -> Findings:
        end = asyncio.get_running_loop().time() + patience
        cluster: Cluster | None = None
        try:
            cluster = await reach(self._use.settings, patience)
            async with asyncio.timeout_at(end):
                await self._ask(cluster, patience)
        except (TimeoutError, TimedOutError):
            self._blame_servers(f"did not answer within {patience:g} s", "late")
        except (NoBrokersError, ConnectionLostError) as error:
            self._blame_servers(f"cannot be reached: {error.message}", "unreachable")
        except KafkaError as error:
            self._blame_servers(f"refused: {error.message}", "wrong")
        finally:
            if cluster is not None:
                await cluster.close()
        return self._found

    async def _ask(self, cluster: Cluster, patience: float) -> None:
        if any("subscribePattern" in source.options for source in self._use.sources):
            await cluster.refresh(None)
        # After all topics: what is wrong with one is told only to those who ask by its name.
        names = {topic for part in self._use.parts for topic in _topics(part)}
        self._metadata = await cluster.refresh(names)
        for source in self._use.sources:
            await self._source(cluster, source)
        await self._missing_sinks(cluster, patience)
        self._found.notes += _circles(self._use)
        for sink in self._use.sinks:
            if sink.options.get("exactlyOnce") == "true":
                await self._transactions(cluster, sink)

    async def _source(self, cluster: Cluster, source: TopicSource) -> None:
        known = self._metadata.topics
        mine = {name: info for name, info in known.items() if reads_topic(source, name)}
        for name in _topics(source):
            if name not in known and name != source.options.get("deadLetterTopic"):
                if self._is_missing(name):
                    await self._missing(cluster, source, name)
                else:
                    self._undescribed(source, ("topic", "topics"), name)
        if not mine and "subscribePattern" in source.options:
            self._found.notes.append(
                f"No topic of {self._use.servers} matches pattern = "
                f"{source.options['subscribePattern']!r} of source {source.name} yet"
            )
        self._found.sources[source.name] = SourceIdentity(
            self._use.servers,
            self._metadata.cluster_id or "",
            {name: str(info.topic_id) for name, info in mine.items()},
        )
        read = {one for lines in self._planned.values() for line in lines for one in line}
        partitions = [
            one
            for one in read
            if one.topic in mine and one.partition in mine[one.topic].with_leader
        ]
        if not partitions:
            return
        try:
            ends = await AsyncAdmin.over(cluster).list_offsets(
                dict.fromkeys(partitions, OffsetSpec.LATEST)
            )
        except KafkaError as error:
            self._found.notes.append(
                f"Where the topics of source {source.name} end was not told: {error.message}"
            )
        else:
            self._found.ends[source.name] = {one: end.offset for one, end in ends.items()}

    async def _missing(self, cluster: Cluster, source: TopicSource, name: str) -> None:
        meant = ""
        with suppress(KafkaError):
            others = [info.name for info in await AsyncAdmin.over(cluster).list_topics()]
            hint = did_you_mean(name, others)
            meant = f"{hint} " if hint.endswith("?") else ""  # and not all topics of a cluster
        create = f"`moldau topic create {name} -b {self._use.servers}`"
        self._problem(
            source,
            ("topic", "topics"),
            f"source {source.name} reads topic {name}, and {self._use.servers} has no such "
            f"topic: {meant}{create} makes one",
            "missing",
        )

    def _is_missing(self, name: str) -> bool:
        error = self._metadata.errors.get(name)
        return error is None or error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _undescribed(self, part: TopicSource | TopicSink, keys: Collection[str], name: str) -> None:
        """The cluster says something else of a topic than that it is not there."""
        error = self._metadata.errors[name]
        if error.retriable:  # it is being made, or looks for a leader
            self._found.notes.append(f"{self._use.servers} has no answer yet: {error.message}")
        elif error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self._problem(part, keys, f"topic {name} may not be seen: {error.message}")
        else:
            self._problem(part, keys, f"{self._use.servers} refuses it: {error.message}")

    async def _missing_sinks(self, cluster: Cluster, patience: float) -> None:
        known = self._metadata.topics
        missing: list[tuple[TopicSource | TopicSink, str, str]] = [
            (part, key, part.options[option])
            for part in self._use.parts
            for key, option in (("topic", "topic"), ("dead_letter_topic", "deadLetterTopic"))
            if option in part.options and part.options[option] not in known
        ]
        creates = await _creates_topics(cluster, patience / 2) if missing else None
        for part, key, name in missing:
            if not self._is_missing(name):
                self._undescribed(part, (key, "options"), name)
            elif isinstance(part, TopicSink) and not part.create:
                self._problem(
                    part,
                    (key, "options"),
                    f"{self._use.servers} has no topic {name}, and sink {part.name} says create "
                    f"= false: `moldau topic create {name} --partitions N -b "
                    f"{self._use.servers}` makes one; keys stay in their partitions if it has as "
                    "many as the topic that the records come from",
                    "missing",
                )
            elif creates:
                self._found.notes.append(
                    f"Topic {name} is not there; {self._use.servers} creates it with its first "
                    "record"
                )
            elif creates is None:
                self._found.notes.append(
                    f"Topic {name} is not there, and {self._use.servers} does not say whether "
                    "it creates topics by itself"
                )
            else:
                self._problem(
                    part,
                    (key, "options"),
                    f"{self._use.servers} has no topic {name}, and does not create topics by "
                    f"itself: `moldau topic create {name} -b {self._use.servers}` makes one",
                    "missing",
                )

    async def _transactions(self, cluster: Cluster, sink: TopicSink) -> None:
        # Imported where they are needed, here and elsewhere: this must not take a second.
        from moldau.spark.exactly_once.errors import ExactlyOnceError
        from moldau.spark.exactly_once.session import check_transactions

        try:
            await check_transactions(cluster)
        except ExactlyOnceError:
            self._problem(
                sink,
                ("exactly_once", "options"),
                f"exactly_once of sink {sink.name} needs a cluster with transactions, such as "
                f"Moldau, and {self._use.servers} has none: leave exactly_once out, and "
                "rows are written at least once (some twice, after a failure)",
            )

    def _blame_servers(self, what: str, kind: Kind) -> None:
        message = f"{self._use.servers} {what}"
        self._found.problems.append(self._pipeline.problem(self._use.place, message, kind=kind))

    def _problem(
        self,
        part: TopicSource | TopicSink,
        keys: Collection[str],
        message: str,
        kind: Kind = "wrong",
    ) -> None:
        """``keys``: the first of them that the file has is to blame."""
        place = self._pipeline.declared(part, *keys)
        self._found.problems.append(self._pipeline.problem(place, message, kind=kind))


def _circles(use: ClusterUse) -> Iterator[str]:
    """Nothing to refuse: a step may leave out what was written before."""
    for sink in use.sinks:
        topic = sink.options.get("topic")
        for source in use.sources:
            if topic is not None and source.streaming and reads_topic(source, topic):
                yield (
                    f"Sink {sink.name} writes to topic {topic}, which source {source.name} reads: "
                    "what is written is read again"
                )


async def _creates_topics(cluster: Cluster, patience: float) -> bool | None:
    """None if the cluster does not tell."""
    try:
        async with asyncio.timeout(patience):
            node = next(iter(cluster.metadata.nodes), -1)
            resource = ConfigResource(ResourceType.BROKER, str(node))
            (outcome,) = await AsyncAdmin.over(cluster).describe_configs([resource])
            said = {entry.name: entry.value for entry in outcome.get()}.get(_AUTO_CREATE)
    except (KafkaError, TimeoutError):
        return None
    return None if said is None else said == "true"


def _topics(part: TopicSource | TopicSink) -> list[str]:
    """Those that a source or sink names."""
    if isinstance(part, TopicSink):
        return [part.options["topic"]] if "topic" in part.options else []
    dead = part.options.get("deadLetterTopic")
    topics = read_options(part.options, streaming=part.streaming).subscription.topics
    return [*topics, *([dead] if dead else [])]
