"""Brokers that answer, topics that are there or will be, transactions where they are needed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from moldau.client.admin.async_admin import AsyncAdmin
from moldau.client.admin.types import ConfigResource
from moldau.client.cluster import Cluster
from moldau.client.errors import ConnectionLostError, NoBrokersError
from moldau.client.offsets import OffsetSpec
from moldau.client.settings import AdminSettings
from moldau.config.types import ResourceType
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.spark.options import read_options
from moldau.spark.pipeline.checkpoint import local_directory, planned_offsets
from moldau.spark.pipeline.preflight.found import Findings, SourceIdentity
from moldau.spark.pipeline.problems import Kind, did_you_mean
from moldau.spark.pipeline.spec import Pipeline, TopicSink, TopicSource
from moldau.spark.pipeline.status import connection_settings, reads_topic

_AUTO_CREATE: Final = "auto.create.topics.enable"
_PAUSE: Final = 0.1


@dataclass
class _Group:
    """What uses one cluster, with the same login."""

    settings: dict[str, object]
    sources: list[TopicSource] = field(default_factory=list)
    sinks: list[TopicSink] = field(default_factory=list)

    @property
    def servers(self) -> str:
        return str(self.settings["bootstrap.servers"])

    @property
    def parts(self) -> list[TopicSource | TopicSink]:
        return [*self.sources, *self.sinks]


def check_clusters(pipeline: Pipeline, patience: float) -> Findings:
    """``patience``: for how many seconds a cluster may be silent."""
    return asyncio.run(_check_all(pipeline, patience))


async def _check_all(pipeline: Pipeline, patience: float) -> Findings:
    found = Findings()
    checks = [_Check(pipeline, group).run(patience) for group in _groups(pipeline)]
    for one in await asyncio.gather(*checks):
        found.add(one)
    return found


def _groups(pipeline: Pipeline) -> Collection[_Group]:
    groups: dict[frozenset[tuple[str, object]], _Group] = {}
    for part in (*pipeline.sources, *pipeline.sinks):
        if isinstance(part, (TopicSource, TopicSink)):
            settings = connection_settings(part.options)
            group = groups.setdefault(frozenset(settings.items()), _Group(settings))
            if isinstance(part, TopicSource):
                group.sources.append(part)
            else:
                group.sinks.append(part)
    return groups.values()


class _Check:
    """All questions to one cluster."""

    def __init__(self, pipeline: Pipeline, group: _Group) -> None:
        self._pipeline = pipeline
        self._group = group
        self._found = Findings()

    async def run(self, patience: float) -> Findings:
        limits = {"request.timeout.ms": int(patience * 1000)}
        cluster = Cluster(AdminSettings({**self._group.settings, **limits}))
        try:
            async with asyncio.timeout(patience):
                await _reach(cluster, patience * 0.9)
                await self._ask(cluster)
        except TimeoutError:
            kind: Kind = "late" if cluster.is_connected else "unreachable"
            self._blame_servers(f"did not answer within {patience:g} s", kind)
        except (NoBrokersError, ConnectionLostError) as error:
            self._blame_servers(f"cannot be reached: {error.message}", "unreachable")
        except KafkaError as error:
            self._blame_servers(f"refused: {error.message}", "wrong")
        finally:
            await cluster.close()
        return self._found

    async def _ask(self, cluster: Cluster) -> None:
        names = {topic for part in self._group.parts for topic in _topics(part)}
        await cluster.refresh(names)
        if any("subscribePattern" in source.options for source in self._group.sources):
            await cluster.refresh(None)
        for source in self._group.sources:
            await self._source(cluster, source)
        await self._missing_sinks(cluster)
        for sink in self._group.sinks:
            if sink.options.get("exactlyOnce") == "true":
                await self._transactions(cluster, sink)

    async def _source(self, cluster: Cluster, source: TopicSource) -> None:
        known = cluster.metadata.topics
        mine = {name: info for name, info in known.items() if reads_topic(source, name)}
        for name in _topics(source):
            if name not in known and name != source.options.get("deadLetterTopic"):
                await self._missing(cluster, source, name)
        if not mine and "subscribePattern" in source.options:
            self._found.notes.append(
                f"No topic of {self._group.servers} matches pattern = "
                f"{source.options['subscribePattern']!r} of source {source.name} yet"
            )
        self._found.sources[source.name] = SourceIdentity(
            self._group.servers,
            cluster.metadata.cluster_id or "",
            {name: str(info.topic_id) for name, info in mine.items()},
        )
        partitions = [
            one
            for one in _checkpointed(self._pipeline)
            if one.topic in mine and one.partition in mine[one.topic].partitions
        ]
        if partitions:
            admin = AsyncAdmin.over(cluster)
            ends = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
            self._found.ends[source.name] = {one: end.offset for one, end in ends.items()}

    async def _missing(self, cluster: Cluster, source: TopicSource, name: str) -> None:
        others = [info.name for info in await AsyncAdmin.over(cluster).list_topics()]
        hint = did_you_mean(name, others)
        meant = f"{hint} " if hint.endswith("?") else ""  # and not all topics of a cluster
        create = f"`moldau topic create {name} -b {self._group.servers}`"
        self._problem(
            source,
            ("topic", "topics"),
            f"source {source.name} reads topic {name}, and {self._group.servers} has no such "
            f"topic: {meant}{create} makes one",
            "missing",
        )

    async def _missing_sinks(self, cluster: Cluster) -> None:
        known = cluster.metadata.topics
        missing: list[tuple[TopicSource | TopicSink, str, str]] = [
            (part, key, part.options[option])
            for part in self._group.parts
            for key, option in (("topic", "topic"), ("dead_letter_topic", "deadLetterTopic"))
            if option in part.options and part.options[option] not in known
        ]
        creates = await _creates_topics(cluster) if missing else None
        for part, key, name in missing:
            error = cluster.metadata.errors.get(name)
            if error is not None and error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                self._problem(part, (key,), f"topic {name} may not be seen: {error.message}")
            elif isinstance(part, TopicSink) and not part.create:
                self._problem(
                    part,
                    (key, "options"),
                    f"{self._group.servers} has no topic {name}, and sink {part.name} says create "
                    f"= false: `moldau topic create {name} --partitions N -b "
                    f"{self._group.servers}` makes one; keys stay in their partitions if it has as "
                    "many as the topic that the records come from",
                    "missing",
                )
            elif creates:
                self._found.notes.append(
                    f"Topic {name} is not there; {self._group.servers} creates it with its first "
                    "record"
                )
            elif creates is None:
                self._found.notes.append(
                    f"Topic {name} is not there, and {self._group.servers} does not say whether "
                    "it creates topics by itself"
                )
            else:
                self._problem(
                    part,
                    (key, "options"),
                    f"{self._group.servers} has no topic {name}, and does not create topics by "
                    f"itself: `moldau topic create {name} -b {self._group.servers}` makes one",
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
                f"Apache Kafka, and {self._group.servers} has none: leave exactly_once out, and "
                "rows are written at least once (some twice, after a failure)",
            )

    def _blame_servers(self, what: str, kind: Kind) -> None:
        """Of all who use it the first one is told: the address is one."""
        part = self._group.parts[0]
        self._problem(part, ("bootstrap_servers", "options"), f"{self._group.servers} {what}", kind)

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


async def _reach(cluster: Cluster, patience: float) -> None:
    """Brokers may just be starting."""
    end = asyncio.get_running_loop().time() + patience
    while True:
        try:
            return await cluster.start()
        except (NoBrokersError, ConnectionLostError):
            if asyncio.get_running_loop().time() + _PAUSE > end:
                raise
            await asyncio.sleep(_PAUSE)


async def _creates_topics(cluster: Cluster) -> bool | None:
    """None if the cluster does not tell."""
    resource = ConfigResource(ResourceType.BROKER, str(next(iter(cluster.metadata.nodes))))
    try:
        (outcome,) = await AsyncAdmin.over(cluster).describe_configs([resource])
        return {entry.name: entry.value for entry in outcome.get()}.get(_AUTO_CREATE) == "true"
    except KafkaError:
        return None


def _topics(part: TopicSource | TopicSink) -> list[str]:
    """Those that a source or sink names."""
    if isinstance(part, TopicSink):
        return [part.options["topic"]] if "topic" in part.options else []
    dead = part.options.get("deadLetterTopic")
    topics = read_options(part.options, streaming=part.streaming).subscription.topics
    return [*topics, *([dead] if dead else [])]


def _checkpointed(pipeline: Pipeline) -> set[TopicPartition]:
    directory = None if pipeline.remote else local_directory(pipeline.checkpoint)
    if directory is None:
        return set()
    return {one for sink in pipeline.sinks for one in planned_offsets(directory, sink.name)}
