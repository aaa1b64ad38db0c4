"""Following: what a replica does while another broker leads its partition."""

from moldau.replication.followers.fetchers import ReplicaFetchers
from moldau.replication.followers.ports import FetcherSettings, FollowerLogs, FollowerPorts

__all__ = ["FetcherSettings", "FollowerLogs", "FollowerPorts", "ReplicaFetchers"]
