"""The metrics of a broker: Kafka's names, read from the parts when somebody asks.

Read on the event loop, so nothing here may take long: figures per partition are left to
DescribeLogDirs and ListOffsets, which are asked for what they are needed for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from moldau.broker.broker import Broker
from moldau.broker.stalls import kafka_name
from moldau.metrics import Registry
from moldau.model import TopicPartition
from moldau.replication import Partition
from moldau.wire.api import ApiKey


def broker_metrics(broker: Broker, is_controller: Callable[[], bool]) -> Registry:
    registry = Registry()
    _log(registry, broker)
    _replicas(registry, broker)
    _fetch_sessions(registry, broker)
    _controller(registry, broker, is_controller)
    _traffic(registry, broker)
    _groups(registry, broker)
    registry.counter(
        "kafka.server:type=ClientQuotaManager,name=throttle-time-ms",
        "For how long clients over a quota had to hold back, by what the quota limits.",
        lambda: dict(broker.client_quotas.throttled_ms),
        tag="quotaType",
    )
    registry.gauge(
        "kafka.server:type=EventLoop,name=LongestTurnMs",
        "The longest time that everybody had to wait since the start, by the API that is the "
        "likely cause.",
        lambda: dict(broker.stalls.longest_ms),
        tag="request",
    )
    registry.gauge(
        "kafka.server:type=socket-server-metrics,name=connection-count",
        "Connections that are open.",
        lambda: {listener.name: listener.connections for listener in broker.listeners},
        tag="listener",
    )
    _request_memory(registry, broker)
    return registry


def _request_memory(registry: Registry, broker: Broker) -> None:
    memory = broker.request_memory
    registry.gauge(
        "kafka.network:type=SocketServer,name=MemoryPoolUsed",
        "Bytes of requests that are unfinished, unread or kept while they are executed.",
        lambda: memory.used,
    )
    registry.gauge(
        "kafka.network:type=SocketServer,name=MemoryPoolAvailable",
        "What is left of queued.max.request.bytes for more of them; negative while one is over it.",
        lambda: memory.available,
    )
    registry.gauge(  # a counter would have another name than Kafka's
        "kafka.server:type=socket-server-metrics,name=MemoryPoolDepletedTimeTotal",
        "For how many milliseconds some connection was not read because there was nothing left.",
        lambda: memory.depleted_ms,
    )


def _log(registry: Registry, broker: Broker) -> None:
    logs = broker.logs
    cleaner = logs.cleaner
    statistics = cleaner.statistics

    def by_directory(weigh: Callable[[TopicPartition], int]) -> dict[str, float]:
        weights: dict[str, float] = dict.fromkeys(logs.online_dirs, 0)
        for partition, uncleanable in cleaner.uncleanable.items():
            home = uncleanable.log.directory.rpartition("/")[0]
            weights[home] = weights.get(home, 0) + weigh(partition)
        return weights

    manager = "kafka.log:type=LogCleanerManager,name="
    registry.gauge(
        f"{manager}uncleanable-partitions-count",
        "Partitions set aside because their data is damaged.",
        lambda: by_directory(lambda _: 1),
        tag="logDirectory",
    )
    registry.gauge(
        f"{manager}uncleanable-bytes",
        "The size of those partitions.",
        lambda: by_directory(lambda partition: cleaner.uncleanable[partition].log.size),
        tag="logDirectory",
    )
    registry.gauge(
        f"{manager}max-dirty-percent",
        "The dirty share of the log that is dirtiest.",
        lambda: statistics.max_dirty_percent,
    )
    registry.gauge(
        f"{manager}time-since-last-run-ms",
        "Since logs were last looked at for something to clean.",
        lambda: broker.clock.now_ms() - statistics.last_run_ms,
    )
    for name, doc, read in (
        (
            "cleaner-recopy-percent",
            "How much of what the last cleanings read they had to write again.",
            lambda: statistics.recopy_percent,
        ),
        (
            "max-buffer-utilization-percent",
            "How full the key map of the last cleanings was, at most.",
            lambda: statistics.max_buffer_utilization_percent,
        ),
        (
            "max-clean-time-secs",
            "How long the last cleanings took, at most.",
            lambda: statistics.max_clean_time_s,
        ),
        (
            "max-compaction-delay-secs",
            "For how long something has waited beyond max.compaction.lag.ms, at most.",
            lambda: statistics.max_compaction_delay_s,
        ),
        (
            "DeadThreadCount",
            "Cleaner processes that died at their last task; the next task starts them anew.",
            lambda: statistics.dead_cleaners,
        ),
    ):
        registry.gauge(f"kafka.log:type=LogCleaner,name={name}", doc, read)
    registry.gauge(
        "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
        "Log directories that have failed.",
        lambda: sum(reason is not None for reason in logs.directory_failures.values()),
    )
    registry.gauge(
        "kafka.log:type=LogManager,name=LogDirectoryOffline",
        "1 for a log directory that has failed, 0 for one that is used.",
        lambda: {path: int(reason is not None) for path, reason in logs.directory_failures.items()},
        tag="logDirectory",
    )


def _replicas(registry: Registry, broker: Broker) -> None:
    replicas = broker.replicas

    def leading(condition: Callable[[Partition], bool]) -> Callable[[], int]:
        return lambda: sum(
            partition.is_leader and condition(partition) for partition in replicas.partitions()
        )

    for name, doc, read in (
        (
            "PartitionCount",
            "Partitions with a replica here.",
            lambda: sum(map(len, replicas.topics.values())) + replicas.offline_count,
        ),
        ("LeaderCount", "Partitions led from here.", leading(lambda _: True)),
        (
            "OfflineReplicaCount",
            "Replicas whose log directory has failed.",
            lambda: replicas.offline_count,
        ),
        (
            "UnderReplicatedPartitions",
            "Partitions led from here with fewer in-sync replicas than replicas.",
            leading(lambda partition: len(partition.isr) < len(partition.replicas)),
        ),
        (
            "UnderMinIsrPartitionCount",
            "Partitions led from here that take no acks=all: too few replicas are in sync.",
            leading(lambda partition: partition.is_under_min_isr),
        ),
        (
            "ProducerIdCount",
            "Producers whose sequence numbers are remembered.",
            lambda: sum(
                len(partition.log.producers.producers) for partition in replicas.partitions()
            ),
        ),
    ):
        registry.gauge(f"kafka.server:type=ReplicaManager,name={name}", doc, read)
    changes = broker.isr_changes
    for name, doc, read in (
        (
            "IsrExpands",
            "How often a replica joined the in-sync ones of a partition led from here.",
            lambda: 0 if changes is None else changes.expands,
        ),
        (
            "IsrShrinks",
            "How often replicas left the in-sync ones of a partition led from here, by their lag.",
            lambda: 0 if changes is None else changes.shrinks,
        ),
        (
            "FailedIsrUpdates",
            "How often the controller did not, or not yet, do as it was asked with them.",
            lambda: 0 if changes is None else changes.failures,
        ),
    ):
        registry.counter(f"kafka.server:type=ReplicaManager,name={name}PerSec", doc, read)


def _fetch_sessions(registry: Registry, broker: Broker) -> None:
    kind = "kafka.server:type=FetchSessionCache,name="
    registry.gauge(
        f"{kind}NumIncrementalFetchSessions",
        "Fetch sessions that are remembered.",
        lambda: len(broker.fetch_sessions),
    )
    registry.gauge(
        f"{kind}NumIncrementalFetchPartitionsCached",
        "Partitions of all fetch sessions.",
        lambda: broker.fetch_sessions.partitions,
    )


def _controller(registry: Registry, broker: Broker, is_controller: Callable[[], bool]) -> None:
    kind = "kafka.controller:type=KafkaController,name="
    registry.gauge(
        f"{kind}ActiveControllerCount",
        "1 on the broker that is the controller.",
        lambda: int(is_controller()),
    )
    registry.gauge(
        f"{kind}GlobalTopicCount", "Topics of the cluster.", lambda: len(broker.metadata.topics)
    )
    registry.gauge(
        f"{kind}GlobalPartitionCount",
        "Partitions of the cluster.",
        lambda: sum(len(topic.partitions) for topic in broker.metadata.topics.values()),
    )
    registry.gauge(
        f"{kind}OfflinePartitionsCount",
        "Partitions of the cluster that nobody leads.",
        lambda: sum(
            partition.leader < 0
            for topic in broker.metadata.topics.values()
            for partition in topic.partitions.values()
        ),
    )


def _traffic(registry: Registry, broker: Broker) -> None:
    traffic = broker.traffic
    for name, doc, read in (
        ("MessagesIn", "Records appended.", lambda: traffic.messages_in),
        ("BytesIn", "Bytes of records appended.", lambda: traffic.bytes_in),
        ("BytesOut", "Bytes of records sent to consumers.", lambda: traffic.bytes_out),
        (
            "ReplicationBytesOut",
            "Bytes of records sent to followers.",
            lambda: traffic.replication_bytes_out,
        ),
        (
            "ReplicationBytesIn",
            "Bytes of records fetched from leaders.",
            lambda: broker.replicas.following.bytes_in,
        ),
        (
            "TotalProduceRequests",
            "Produce requests, each counted once per partition.",
            lambda: traffic.produced_partitions,
        ),
        (
            "TotalFetchRequests",
            "Fetch requests, each counted once per partition.",
            lambda: traffic.fetched_partitions,
        ),
        (
            "FailedProduceRequests",
            "Appends that failed, without the errors that clients bring about themselves.",
            lambda: traffic.failed_produces,
        ),
        (
            "FailedFetchRequests",
            "Reads that failed, without the errors that clients bring about themselves.",
            lambda: traffic.failed_fetches,
        ),
    ):
        registry.counter(f"kafka.server:type=BrokerTopicMetrics,name={name}PerSec", doc, read)
    registry.counter(
        "kafka.network:type=RequestMetrics,name=RequestsPerSec",
        "Requests, by API.",
        lambda: {
            kafka_name(ApiKey(key)): count for key, count in traffic.requests.items() if count
        },
        tag="request",
    )
    private = broker.private_apis
    registry.counter(
        "kafka.network:type=RequestMetrics,name=BrokerRequestsPerSec",
        "Requests that only brokers make of each other, by what is asked.",
        lambda: {} if private is None else dict(private.requests),
        tag="request",
    )
    registry.counter(
        "kafka.network:type=RequestMetrics,name=BrokerRequestTimeMs",
        "For how many milliseconds they were executed, waiting included.",
        lambda: (
            {}
            if private is None
            else {name: round(time_s * 1000) for name, time_s in private.time_s.items()}
        ),
        tag="request",
    )


def _groups(registry: Registry, broker: Broker) -> None:
    kind = "kafka.coordinator.group:type=GroupMetadataManager,name="

    def counts() -> Iterable[Counter[str]]:
        return [host.shard.counts() for host in broker.groups.hosts]

    def of_all(*names: str) -> Callable[[], int]:
        return lambda: sum(count[name] for count in counts() for name in names)

    registry.gauge(f"{kind}NumGroups", "Groups.", of_all("classic", "consumer"))
    registry.gauge(f"{kind}NumOffsets", "Committed offsets.", of_all("offsets"))
    registry.gauge(
        "kafka.server:type=group-coordinator-metrics,name=group-count",
        "Groups by protocol.",
        lambda: {name: of_all(name)() for name in ("classic", "consumer")},
        tag="protocol",
    )
