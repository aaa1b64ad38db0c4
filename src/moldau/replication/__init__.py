"""Replication: in-sync replicas, high watermarks and the requests that wait for them."""

from moldau.replication.manager import ReplicaManager
from moldau.replication.parked import ParkedFetch, ParkedProduce, commit_error
from moldau.replication.partition import Partition, PartitionRead

__all__ = [
    "ParkedFetch",
    "ParkedProduce",
    "Partition",
    "PartitionRead",
    "ReplicaManager",
    "commit_error",
]
