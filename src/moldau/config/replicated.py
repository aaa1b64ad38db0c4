"""Settings for a cluster of so many brokers, where nobody has chosen others."""

from __future__ import annotations

from typing import Final

MOST_REPLICAS: Final = 3


def replication_settings(brokers: int) -> dict[str, str]:
    """Three copies of everything where there are three brokers, and a write is safe with two."""
    replicas = min(MOST_REPLICAS, brokers)
    safe = max(1, replicas - 1)
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(safe),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(safe),
        # As in the server.properties that Kafka ships: the first consumer of a group need not wait
        # three seconds for others.
        "group.initial.rebalance.delay.ms": "0",
        # The last broker to stop has nobody to hand over to: no use in waiting for long.
        "controlled.shutdown.retry.backoff.ms": "100",
    }
