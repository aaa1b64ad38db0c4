"""The TLS context of settings: the files that it takes, and what it says about others."""

from __future__ import annotations

import os
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from tests.support.certificates import KEY_PASSWORD, Certificates, make_certificates

from moldau import Producer
from moldau.client.security import tls_of
from moldau.client.settings import CommonSettings, ConfigError


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def context_of(**settings: Any) -> ssl.SSLContext:
    return tls_of(
        CommonSettings(bootstrap_servers="localhost", security_protocol="SSL", **settings)
    )


def subjects(context: ssl.SSLContext) -> int:
    return len(context.get_ca_certs())


def test_certificates_and_names_are_checked_by_default(certificates: Certificates) -> None:
    context = context_of(ssl_truststore_location=str(certificates.authority))
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert subjects(context) == 1


def test_the_check_of_names_can_be_left_out_but_not_that_of_certificates() -> None:
    context = context_of(ssl_endpoint_identification_algorithm="")
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)


def test_versions() -> None:
    context = context_of(ssl_enabled_protocols="TLSv1.3")
    assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_3


def test_a_context_is_taken_as_it_is() -> None:
    own = ssl.create_default_context()
    assert context_of(ssl_context=own) is own


def test_authorities_as_text(certificates: Certificates) -> None:
    assert subjects(context_of(ssl_ca_pem=certificates.authority.read_text())) == 1


def test_certificate_and_key_in_one_file_in_two_or_as_text(certificates: Certificates) -> None:
    context_of(ssl_keystore_location=str(certificates.client))
    context_of(
        ssl_certificate_location=str(certificates.client_chain),
        ssl_key_location=str(certificates.client_key),
        ssl_key_password=KEY_PASSWORD,
    )
    context_of(
        ssl_keystore_certificate_chain=certificates.client_chain.read_text(),
        ssl_keystore_key=certificates.client_key.read_text(),
        ssl_key_password=KEY_PASSWORD,
    )


def test_stores_of_java_in_pkcs12(certificates: Certificates, tmp_path: Path) -> None:
    authority = x509.load_pem_x509_certificate(certificates.authority.read_bytes())
    own = x509.load_pem_x509_certificate(certificates.client_chain.read_bytes())
    key = load_pem_private_key(certificates.client_key.read_bytes(), KEY_PASSWORD.encode())
    trusted, mine = tmp_path / "trusted.jks", tmp_path / "mine.p12"
    encryption = BestAvailableEncryption(b"store secret")
    trusted.write_bytes(
        pkcs12.serialize_key_and_certificates(None, None, None, [authority], encryption)
    )
    mine.write_bytes(
        pkcs12.serialize_key_and_certificates(b"mine", key, own, [authority], encryption)  # type: ignore[arg-type]
    )
    context = context_of(
        ssl_truststore_location=str(trusted),
        ssl_truststore_password="store secret",
        ssl_truststore_type="JKS",
        ssl_keystore_location=str(mine),
        ssl_keystore_password="store secret",
        ssl_keystore_type="PKCS12",
    )
    assert subjects(context) == 1
    with pytest.raises(ConfigError, match="the password is wrong") as caught:
        context_of(ssl_truststore_location=str(trusted), ssl_truststore_password="hush-hush")
    assert "hush-hush" not in str(caught.value)


class WatchedFiles:
    """What this process opens for writing while it is looked at."""

    def __init__(self) -> None:
        self.looking = False
        self.written: list[object] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.looking:
            return
        if event.startswith("tempfile."):
            self.written.append(event)
        elif event == "open":
            path, _, flags = arguments
            is_pipe = isinstance(path, int)
            if not is_pipe and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                self.written.append(path)


@pytest.fixture(scope="module")
def watched_files() -> WatchedFiles:
    return WatchedFiles()


@pytest.mark.parametrize("kind", ["pkcs12", "encrypted text", "plain text", "files"])
def test_private_keys_never_touch_a_file(
    certificates: Certificates, tmp_path: Path, watched_files: WatchedFiles, kind: str
) -> None:
    own = x509.load_pem_x509_certificate(certificates.client_chain.read_bytes())
    key = load_pem_private_key(certificates.client_key.read_bytes(), KEY_PASSWORD.encode())
    clear = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    store = tmp_path / "mine.p12"
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"mine",
            key,  # type: ignore[arg-type]
            own,
            None,
            BestAvailableEncryption(b"store secret"),
        )
    )
    chain = {"ssl_keystore_certificate_chain": certificates.client_chain.read_text()}
    settings: dict[str, dict[str, Any]] = {
        "pkcs12": {"ssl_keystore_location": str(store), "ssl_keystore_password": "store secret"},
        "encrypted text": chain
        | {"ssl_keystore_key": certificates.client_key.read_text()}
        | {"ssl_key_password": KEY_PASSWORD},
        "plain text": chain | {"ssl_keystore_key": clear.decode()},
        "files": {
            "ssl_keystore_location": str(certificates.client_chain),
            "ssl_key_location": str(certificates.client_key),
            "ssl_key_password": KEY_PASSWORD,
        },
    }
    before = set(Path("/proc/self/fd").iterdir())
    watched_files.looking = True
    context_of(**settings[kind])
    watched_files.looking = False
    assert watched_files.written == []
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_a_long_chain_is_read_whole(certificates: Certificates) -> None:
    text = certificates.client_chain.read_text()
    notes = "a note that OpenSSL skips\n" * 20_000
    context_of(
        ssl_keystore_certificate_chain=notes + text,
        ssl_keystore_key=notes + certificates.client_key.read_text(),
        ssl_key_password=KEY_PASSWORD,
    )
    with pytest.raises(ConfigError, match="cannot be used"):
        context_of(ssl_keystore_certificate_chain=notes, ssl_keystore_key="-\n" * 500_000)


def test_a_jks_store_is_refused_with_the_way_to_convert_it(tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    with pytest.raises(ConfigError, match="keytool -importkeystore"):
        context_of(ssl_truststore_location=str(store))


def test_files_that_are_no_use(certificates: Certificates, tmp_path: Path) -> None:
    junk = tmp_path / "junk"
    junk.write_text("junk")
    with pytest.raises(ConfigError, match="No such file"):
        context_of(ssl_truststore_location=str(tmp_path / "nothing.pem"))
    with pytest.raises(ConfigError, match="neither PEM nor PKCS12"):
        context_of(ssl_truststore_location=str(junk))
    with pytest.raises(ConfigError, match="has no private key"):
        context_of(ssl_keystore_location=str(certificates.client_chain))
    with pytest.raises(ConfigError, match=r"ssl\.key\.password is wrong"):
        context_of(
            ssl_keystore_location=str(certificates.client_chain),
            ssl_key_location=str(certificates.client_key),
            ssl_key_password="hush-hush",
        )
    with pytest.raises(ConfigError, match="no certificates that can be read"):
        context_of(ssl_truststore_certificates="junk")


def test_a_client_with_a_wrong_file_is_not_even_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.location"):
        Producer(
            bootstrap_servers="localhost",
            security_protocol="SSL",
            ssl_truststore_location=str(tmp_path / "nothing.pem"),
        )
