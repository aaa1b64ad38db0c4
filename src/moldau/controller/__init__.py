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
    CreateTopicResult,
    DeleteTopicResult,
    NewPartitions,
    NewTopic,
    ProducerIds,
    TopicResult,
)
from moldau.controller.settings import ControllerSettings

__all__ = [
    "NO_LEADER",
    "AlterPartition",
    "AlterPartitionResult",
    "BrokerLink",
    "BrokerUpdate",
    "Controller",
    "ControllerFence",
    "ControllerSettings",
    "CreateTopicResult",
    "DeleteTopicResult",
    "LeaderAndIsr",
    "MetadataUpdate",
    "NewPartitions",
    "NewTopic",
    "ProducerIds",
    "RemovedTopic",
    "ReplicaError",
    "StopReplica",
    "TopicResult",
]
