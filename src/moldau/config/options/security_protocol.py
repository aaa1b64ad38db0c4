"""The values of ``security.protocol`` and its kin, the same for brokers and clients."""

from __future__ import annotations

from typing import Final

PLAINTEXT: Final = "PLAINTEXT"
SECURITY_PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
