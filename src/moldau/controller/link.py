"""What the controller tells brokers, as plain data, and the one method that carries it.

The controller never reaches into a broker. It sends a ``BrokerUpdate``: what to lead and follow,
what to stop, what the cluster looks like, which settings changed. To its own broker that is a call
within the process; nothing in the message is tied to it. Lists are flat and their items are shared
between brokers, so that ten thousand partitions cost one object each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol
from uuid import UUID

import msgspec

from moldau.coordination.znodes import RECOVERED, BrokerRegistration
from moldau.errors import ErrorCode
from moldau.model import TopicPartition
from moldau.quotas.entity import ClientQuota

FORMAT: Final = 1
"""Of ``BrokerUpdate``: a broker refuses what it would misread."""
NO_LEADER = -1
INITIAL_LEADER_EPOCH = 0


class LeaderAndIsr(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Everything the controller knows about one partition.

    ``partition_epoch`` is the version of the partition's state node: it rises with every change,
    ``leader_epoch`` with every new leadership. ``offline_replicas`` are those that a broker which
    is up cannot serve (failed disk); replicas on dead brokers are told by the list of brokers.
    ``elr`` could lead though they are not in sync, ``last_known_leader`` led before nobody did, and
    ``broker_epochs`` are those of ``isr`` and ``elr``, in that order (see ``elections``).
    """

    topic: str
    topic_id: UUID
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int
    controller_epoch: int
    leader_recovery_state: int = RECOVERED
    offline_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    is_new: bool = False
    elr: tuple[int, ...] = ()
    last_known_leader: int = NO_LEADER
    broker_epochs: tuple[int, ...] = ()

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class StopReplica(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Stop serving this replica; with ``delete``, remove its log as well."""

    topic: str
    topic_id: UUID
    partition: int
    delete: bool
    leader_epoch: int


class RemovedTopic(msgspec.Struct, frozen=True, gc=False):
    name: str
    topic_id: UUID


class MetadataUpdate(msgspec.Struct, frozen=True):
    """What every broker should know. ``brokers`` is None if it did not change.

    With ``full`` begins all there is, with ``full_ends`` it ends: topics not named in between do
    not exist, and replicas that are assigned elsewhere are not this broker's.
    """

    brokers: tuple[BrokerRegistration, ...] | None = None
    partitions: Sequence[LeaderAndIsr] = ()
    removed_topics: Sequence[RemovedTopic] = ()
    full: bool = False
    full_ends: bool = False


class BrokerUpdate(msgspec.Struct, frozen=True):
    """One message to one broker. It is applied in this order of fields.

    Settings come first, so that a log is created with its own; ``topic_configs`` maps a topic to
    all its overrides, ``broker_configs`` a broker id (empty: every broker) to all of its,
    ``group_configs`` a group id, ``client_metrics_configs`` the name of a subscription;
    ``client_quotas`` are all those of the entities named.
    ``topic_config_versions`` tell how often the settings of each of ``topic_configs`` have changed.
    ``broker_epoch`` says for which life of the broker the message is meant. What a broker leads and
    follows it takes from the partitions in ``metadata`` that it is a replica of.

    ``sequence`` counts the messages of one controller to one life of a broker: whoever misses one
    asks for everything, and is sent ``metadata.full``.
    """

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    sequence: int = 0
    format: int = FORMAT
    topic_configs: dict[str, dict[str, str]] = {}
    topic_config_versions: dict[str, int] = {}
    broker_configs: dict[str, dict[str, str]] = {}
    group_configs: dict[str, dict[str, str]] = {}
    client_metrics_configs: dict[str, dict[str, str]] = {}
    client_quotas: Sequence[ClientQuota] = ()
    stop_replicas: Sequence[StopReplica] = ()
    metadata: MetadataUpdate = MetadataUpdate()


class ReplicaError(msgspec.Struct, frozen=True):
    """A replica for which the broker could not do what it was told."""

    topic: str
    partition: int
    error: ErrorCode


class BrokerLink(Protocol):
    """The way to the brokers; the broker process supplies it."""

    async def update(
        self, broker: BrokerRegistration, update: BrokerUpdate
    ) -> Sequence[ReplicaError]:
        """Deliver; returns when it is applied, with the replicas that failed.

        Raises if the broker was not reached or refused it. KafkaError STALE_CONTROLLER_EPOCH tells
        a controller that it has been replaced; STALE_BROKER_EPOCH, that the broker is not (or not
        yet) living the life that it is registered with.
        """
        ...
