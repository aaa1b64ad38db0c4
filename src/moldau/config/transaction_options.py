"""Options of idempotent producers and transactions."""

from __future__ import annotations

from typing import Final

from moldau.config.option import Area, Update

TRANSACTIONS: Final = Area(
    "Producers and transactions",
    "What is remembered about producers. Idempotent producers are served; transactions are not "
    "yet, and their settings are read and checked so that files load.",
)

PRODUCER_ID_EXPIRATION_MS = TRANSACTIONS.integer(
    "producer.id.expiration.ms",
    86_400_000,
    "How long a partition remembers the sequence numbers of a producer that has gone quiet. "
    "Afterwards a late retry can no longer be recognised as a duplicate.",
    at_least=1,
    update=Update.CLUSTER_WIDE,
)
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = TRANSACTIONS.integer(
    "producer.id.expiration.check.interval.ms",
    600_000,
    "How often to forget producers that have gone quiet.",
    at_least=1,
    internal=True,
)
TRANSACTIONAL_ID_EXPIRATION_MS = TRANSACTIONS.integer(
    "transactional.id.expiration.ms",
    604_800_000,
    "How long the coordinator remembers a transactional id that nobody uses.",
    at_least=1,
)
TRANSACTION_MAX_TIMEOUT_MS = TRANSACTIONS.integer(
    "transaction.max.timeout.ms",
    900_000,
    "The longest transaction timeout that a producer may ask for.",
    at_least=1,
)
TRANSACTION_PARTITION_VERIFICATION_ENABLE = TRANSACTIONS.boolean(
    "transaction.partition.verification.enable",
    True,
    "Whether a partition asks the coordinator before it takes the first batch of a transaction.",
    update=Update.CLUSTER_WIDE,
)
TRANSACTION_TWO_PHASE_COMMIT_ENABLE = TRANSACTIONS.boolean(
    "transaction.two.phase.commit.enable",
    False,
    "Whether producers may take part in transactions that something else coordinates.",
)
TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS = TRANSACTIONS.integer(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    10_000,
    "How often to abort transactions that have run out of time.",
    at_least=1,
)
TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS = TRANSACTIONS.integer(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    3_600_000,
    "How often to forget expired transactional ids.",
    at_least=1,
)
TRANSACTION_STATE_LOG_NUM_PARTITIONS = TRANSACTIONS.integer(
    "transaction.state.log.num.partitions",
    50,
    "How many partitions the transaction topic is created with. It must not change afterwards.",
    at_least=1,
)
TRANSACTION_STATE_LOG_REPLICATION_FACTOR = TRANSACTIONS.short(
    "transaction.state.log.replication.factor",
    3,
    "How many replicas the transaction topic is created with.",
    at_least=1,
)
TRANSACTION_STATE_LOG_MIN_ISR = TRANSACTIONS.integer(
    "transaction.state.log.min.isr",
    2,
    "The `min.insync.replicas` of the transaction topic.",
    at_least=1,
)
TRANSACTION_STATE_LOG_SEGMENT_BYTES = TRANSACTIONS.integer(
    "transaction.state.log.segment.bytes",
    104_857_600,
    "The segment size of the transaction topic.",
    at_least=1,
)
TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE = TRANSACTIONS.integer(
    "transaction.state.log.load.buffer.size",
    5_242_880,
    "How much is read at a time when a coordinator loads the transaction topic.",
    at_least=1,
)
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS = TRANSACTIONS.integer(
    "add.partitions.to.txn.retry.backoff.ms",
    20,
    "The pause before the broker asks again whether a partition belongs to a transaction.",
    at_least=1,
)
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS = TRANSACTIONS.integer(
    "add.partitions.to.txn.retry.backoff.max.ms",
    100,
    "How long the broker keeps asking again.",
    at_least=0,
)
