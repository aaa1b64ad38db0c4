"""One Apache Kafka with a listener of each kind: TLS, logins, both, and logins that run out."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import ApacheKafka
from tests.support.certificates import Certificates
from tests.support.waiting import eventually

from moldau import Admin, AuthenticationError
from moldau.client.admin import ScramUpsertion

USER: Final = "alice"
PASSWORD: Final = 'alice, "secret"=ª'
"""With what SCRAM, JAAS and SASLprep would trip over."""

SSL, MUTUAL, MISNAMED = "TLS", "MUTUAL", "MISNAMED"
SASL_SSL, SASL_PLAINTEXT, EXPIRING = "LOGIN_TLS", "LOGIN", "EXPIRING"

_LISTENERS: Final = {
    SSL: "SSL",
    MUTUAL: "SSL",
    MISNAMED: "SSL",
    SASL_SSL: "SASL_SSL",
    SASL_PLAINTEXT: "SASL_PLAINTEXT",
    EXPIRING: "SASL_PLAINTEXT",
}
_SCRAM: Final = ("scram-sha-256", "scram-sha-512")
_MECHANISMS: Final = {
    SASL_SSL: ("plain", *_SCRAM, "oauthbearer"),
    SASL_PLAINTEXT: _SCRAM,
    EXPIRING: ("scram-sha-256", "oauthbearer"),
}
_MODULES: Final = "org.apache.kafka.common.security"
SESSION_MS: Final = 1500
"""How long logins last on the listener EXPIRING; brokers refuse more than one a second."""


def secured_kafka(
    directory: Path, certificates: Certificates, settings: dict[str, str]
) -> ApacheKafka:
    quoted = PASSWORD.replace('"', r"\"")
    jaas = {
        "plain": f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{quoted}";',
        "scram-sha-256": f"{_MODULES}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{_MODULES}.scram.ScramLoginModule required;",
        "oauthbearer": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker";',
    }
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        _listener(MUTUAL, "ssl.client.auth"): "required",
        _listener(MISNAMED, "ssl.keystore.type"): "PEM",
        _listener(MISNAMED, "ssl.keystore.location"): str(certificates.misnamed_broker),
        **settings,
    }
    for name, mechanisms in _MECHANISMS.items():
        properties[_listener(name, "sasl.enabled.mechanisms")] = ",".join(mechanisms).upper()
        for mechanism, module in ((one, jaas[one]) for one in mechanisms):
            properties[_listener(name, f"{mechanism}.sasl.jaas.config")] = _escaped(module)
            if name == EXPIRING:
                limit = f"{mechanism}.connections.max.reauth.ms"
                properties[_listener(name, limit)] = str(SESSION_MS)
    return ApacheKafka(directory, properties, listeners=_LISTENERS)


def add_user(broker: ApacheKafka, name: str, mechanism: str) -> None:
    """Make a user of SCRAM with ``PASSWORD``, and wait until the broker has heard of it."""
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_user_scram_credentials([ScramUpsertion(name, mechanism, PASSWORD)])[0].get()

    def can_log_in() -> bool:
        config = {"bootstrap.servers": broker.address(SASL_PLAINTEXT)}
        login = {"sasl.mechanism": mechanism, "sasl.username": name, "sasl.password": PASSWORD}
        with Admin(config | login | {"security.protocol": "SASL_PLAINTEXT"}) as admin:
            try:
                admin.list_topics()
            except AuthenticationError:
                return False
            return True

    eventually(can_log_in, f"{name} cannot log in")


def _escaped(text: str) -> str:
    """For a properties file, which takes backslashes away and is Latin-1."""
    text = text.replace("\\", r"\\")
    return "".join(one if one.isascii() else f"\\u{ord(one):04x}" for one in text)


def _listener(name: str, setting: str) -> str:
    return f"listener.name.{name.lower()}.{setting}"


def unsecured_token(subject: str = USER, lasts: float = 600) -> tuple[str, float]:
    """A token that brokers take whose OAUTHBEARER is not set up further, and when it expires."""
    now = time.time()
    claims = {"sub": subject, "iat": now, "exp": now + lasts}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    encoded = (base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
    return ".".join((*encoded, "")), now + lasts
