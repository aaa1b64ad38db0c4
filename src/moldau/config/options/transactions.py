"""Options: idempotent producers and transactions."""

from __future__ import annotations

from moldau.config.declare import CLUSTER_WIDE, boolean, integer, short
from moldau.config.option import Options


class TransactionOptions(Options):
    """What is remembered about producers and their transactions."""

    title = "Producers and transactions"

    producer_id_expiration_ms = integer(
        86_400_000,
        "How long a partition remembers the sequence numbers of a producer that has gone quiet. "
        "Afterwards a late retry can no longer be recognised as a duplicate.",
        at_least=1,
        update=CLUSTER_WIDE,
    )
    producer_id_expiration_check_interval_ms = integer(
        600_000, "How often to forget producers that have gone quiet.", at_least=1, internal=True
    )
    transactional_id_expiration_ms = integer(
        604_800_000,
        "How long the coordinator remembers a transactional id that nobody uses.",
        at_least=1,
    )
    transaction_max_timeout_ms = integer(
        900_000, "The longest transaction timeout that a producer may ask for.", at_least=1
    )
    transaction_partition_verification_enable = boolean(
        True,
        "Whether a partition asks the coordinator before it takes the first batch of a "
        "transaction.",
        update=CLUSTER_WIDE,
    )
    transaction_two_phase_commit_enable = boolean(
        False, "Whether producers may take part in transactions that something else coordinates."
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        10_000, "How often to abort transactions that have run out of time.", at_least=1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        3_600_000, "How often to forget expired transactional ids.", at_least=1
    )
    transaction_state_log_num_partitions = integer(
        50,
        "How many partitions the transaction topic is created with. It must not change afterwards.",
        at_least=1,
    )
    transaction_state_log_replication_factor = short(
        3, "How many replicas the transaction topic is created with.", at_least=1
    )
    transaction_state_log_min_isr = integer(
        2, "The `min.insync.replicas` of the transaction topic.", at_least=1
    )
    transaction_state_log_segment_bytes = integer(
        104_857_600, "The segment size of the transaction topic.", at_least=1
    )
    transaction_state_log_load_buffer_size = integer(
        5_242_880,
        "How much is read at a time when a coordinator loads the transaction topic.",
        at_least=1,
    )
    add_partitions_to_txn_retry_backoff_ms = integer(
        20,
        "The pause before the broker asks again whether a partition belongs to a transaction.",
        at_least=1,
    )
    add_partitions_to_txn_retry_backoff_max_ms = integer(
        100, "How long the broker keeps asking again.", at_least=0
    )
