"""The controller: decides who leads, what exists and how it is configured."""

from moldau.controller.controller import Controller
from moldau.controller.fencing import ControllerFence
from moldau.controller.link import (
    NO_LEADER,
    BrokerLink,
    BrokerUpdate,
    LeaderAndIsr,
    MetadataUpdate,
    RemovedTopic,
    ReplicaError,
    StopReplica,
)
from moldau.controller.requests import (
    AlterPartition,
    AlterPartitionResult,
    ClientQuotaAlteration,
    ClientQuotaResult,
    ConfigAlteration,
    ConfigResult,
    CreateTopicResult,
    DeleteTopicResult,
    Mutator,
    NewPartitions,
    NewTopic,
    ProducerIdBlock,
    TopicReference,
    TopicResult,
)
from moldau.controller.settings import ControllerSettings

__all__ = [
    "NO_LEADER",
    "AlterPartition",
    "AlterPartitionResult",
    "BrokerLink",
    "BrokerUpdate",
    "ClientQuotaAlteration",
    "ClientQuotaResult",
    "ConfigAlteration",
    "ConfigResult",
    "Controller",
    "ControllerFence",
    "ControllerSettings",
    "CreateTopicResult",
    "DeleteTopicResult",
    "LeaderAndIsr",
    "MetadataUpdate",
    "Mutator",
    "NewPartitions",
    "NewTopic",
    "ProducerIdBlock",
    "RemovedTopic",
    "ReplicaError",
    "StopReplica",
    "TopicReference",
    "TopicResult",
]
