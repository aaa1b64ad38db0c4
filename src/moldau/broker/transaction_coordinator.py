"""The transaction coordinator, as it is registered with the runtime of coordinators, and requests
that may need a new producer id.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from moldau.broker.configs import Configs
from moldau.config.values.broker import BrokerConfig
from moldau.controller import NewTopic
from moldau.coordinators import Coordinator, CoordinatorSpec, PendingRequest
from moldau.errors import ErrorCode, KafkaError
from moldau.late_imports import late_import
from moldau.outcome import Outcome
from moldau.records.compression import Compression

if TYPE_CHECKING:
    from moldau.broker.broker import Broker
    from moldau.transactions.markers import Markers
    from moldau.transactions.shard import TransactionShard

TransactionCoordinator: TypeAlias = "Coordinator[TransactionShard]"

TRANSACTION_TOPIC: Final = "__transaction_state"

Call: TypeAlias = "Callable[[TransactionShard, PendingRequest, int, int | None], Outcome]"
"""A request to a shard, with a new producer id if it has said that it needs one."""


def transaction_coordinator_spec(
    configs: Configs, markers: Markers, *, alone: bool = True
) -> CoordinatorSpec[TransactionShard]:
    """``alone``: there can be no other broker in the cluster."""

    def new_shard() -> TransactionShard:
        shards = late_import("moldau.transactions.shard")
        settings = late_import("moldau.transactions.settings").TransactionSettings
        shard: TransactionShard = shards.TransactionShard(
            settings.from_config(configs.broker), markers
        )
        return shard

    return CoordinatorSpec(
        TRANSACTION_TOPIC,
        new_topic=lambda: _transaction_topic(configs.broker, alone=alone),
        new_shard=new_shard,
        compression=lambda: Compression.NONE,
        commit_timeout_ms=lambda: configs.broker.request_timeout_ms,
        load_buffer_bytes=lambda: configs.broker.transaction_state_log_load_buffer_size,
    )


def _transaction_topic(config: BrokerConfig, *, alone: bool) -> NewTopic:
    """As the topic of groups: with fewer brokers than its factor it is not made."""
    factor = config.transaction_state_log_replication_factor
    min_isr = config.transaction_state_log_min_isr
    if alone:
        # Kafka's defaults are for clusters. Its sample configuration for a single broker sets 1.
        if BrokerConfig.transaction_state_log_replication_factor.name not in config.explicit:
            factor = 1
        if BrokerConfig.transaction_state_log_min_isr.name not in config.explicit:
            min_isr = 1
    return NewTopic(
        name=TRANSACTION_TOPIC,
        num_partitions=config.transaction_state_log_num_partitions,
        replication_factor=factor,
        configs=transaction_topic_configs(config, min_isr),
    )


def transaction_topic_configs(config: BrokerConfig, min_isr: int) -> dict[str, str]:
    """Returns the settings that the topic is created with."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(min_isr),
        "segment.bytes": str(config.transaction_state_log_segment_bytes),
        "unclean.leader.election.enable": "false",
    }


async def with_producer_id(broker: Broker, transactional_id: str, call: Call) -> Any:
    """Returns the shard's answer to a request that may need a producer id which nobody has had.
    Raises the KafkaError that keeps the coordinator from answering.
    """
    from moldau.transactions.shard import PRODUCER_ID_WANTED

    answer = await _submit(broker, transactional_id, call, None)
    if answer is PRODUCER_ID_WANTED:
        answer = await _submit(broker, transactional_id, call, await next_producer_id(broker))
    if isinstance(answer, KafkaError):
        raise answer
    return answer


async def next_producer_id(broker: Broker) -> int:
    try:
        return await broker.producer_ids.next()
    except KafkaError as error:
        # The block cannot be reserved now; clients retry this one.
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message) from error


async def _submit(
    broker: Broker, transactional_id: str, call: Call, new_producer_id: int | None
) -> Any:
    answer: Any | Awaitable[Any] = broker.transactions.submit(
        transactional_id,
        lambda shard, token, now_ms: call(shard, token, now_ms, new_producer_id),
        lambda error: error,
    )
    return await answer if isawaitable(answer) else answer
