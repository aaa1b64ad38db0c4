"""The settings that the transaction coordinator works with, as plain values.

``TransactionSettings()`` has Kafka's defaults, which is what tests want; a broker fills it from its
configuration with ``TransactionSettings.from_config``.
"""

from __future__ import annotations

from dataclasses import dataclass

from moldau.config.options.transactions import TransactionOptions as Options
from moldau.config.values.broker import BrokerConfig


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    max_timeout_ms: int = Options.transaction_max_timeout_ms.default
    id_expiration_ms: int = Options.transactional_id_expiration_ms.default
    abort_interval_ms: int = (
        Options.transaction_abort_timed_out_transaction_cleanup_interval_ms.default
    )
    """How often it is looked for transactions that take too long."""
    expiry_interval_ms: int = (
        Options.transaction_remove_expired_transaction_cleanup_interval_ms.default
    )
    """How often it is looked for transactional ids that nobody uses."""

    @classmethod
    def from_config(cls, config: BrokerConfig) -> TransactionSettings:
        return cls(
            max_timeout_ms=config.transaction_max_timeout_ms,
            id_expiration_ms=config.transactional_id_expiration_ms,
            abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            expiry_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        )
