"""Certificates for tests: an authority, a broker's, a client's, as PEM files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

KEY_PASSWORD = "key secret"


@dataclass(frozen=True)
class Certificates:
    authority: Path
    broker: Path
    """Certificate and key of 127.0.0.1 and localhost, in one file, as Kafka wants it."""
    misnamed_broker: Path
    """For elsewhere.example only."""
    client: Path
    """Certificate and key of a client, in one file."""
    client_chain: Path
    client_key: Path
    """Encrypted, with ``KEY_PASSWORD``."""
    stranger: Path
    """An authority that has certified nobody here."""


def make_certificates(directory: Path) -> Certificates:
    directory.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA()
    client = authority.issue_cert("client@example.org", common_name="client")
    chain = b"".join(blob.bytes() for blob in client.cert_chain_pems)
    found = Certificates(
        *(directory / f"{name}.pem" for name in Certificates.__dataclass_fields__),
    )
    authority.cert_pem.write_to_path(str(found.authority))
    trustme.CA().cert_pem.write_to_path(str(found.stranger))
    found.broker.write_bytes(_together(authority.issue_cert("127.0.0.1", "localhost")))
    found.misnamed_broker.write_bytes(_together(authority.issue_cert("elsewhere.example")))
    found.client.write_bytes(_together(client))
    found.client_chain.write_bytes(chain)
    found.client_key.write_bytes(_key(client, KEY_PASSWORD))
    return found


def _together(leaf: trustme.LeafCert) -> bytes:
    return _key(leaf) + b"".join(blob.bytes() for blob in leaf.cert_chain_pems)


def _key(leaf: trustme.LeafCert, password: str | None = None) -> bytes:
    """PKCS#8, the only form that Kafka reads."""
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
