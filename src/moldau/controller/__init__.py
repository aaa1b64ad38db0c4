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
    ConfigAlteration,
    ConfigResult,
    CreateTopicResult,
    DeleteTopicResult,
    NewPartitions,
    NewReplicas,
    NewTopic,
    OngoingReassignment,
    PartitionResult,
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
    "ConfigAlteration",
    "ConfigResult",
    "Controller",
    "ControllerFence",
    "ControllerSettings",
    "CreateTopicResult",
    "DeleteTopicResult",
    "LeaderAndIsr",
    "MetadataUpdate",
    "NewPartitions",
    "NewReplicas",
    "NewTopic",
    "OngoingReassignment",
    "PartitionResult",
    "ProducerIdBlock",
    "RemovedTopic",
    "ReplicaError",
    "StopReplica",
    "TopicReference",
    "TopicResult",
]
