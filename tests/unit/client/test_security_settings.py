"""Settings of TLS and SASL: which belong together, and that passwords stay hidden."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from moldau.client.security import login_of
from moldau.client.settings import CommonSettings, ConfigError, ProducerSettings
from moldau.security.logins import ClientCredentials, PasswordLogin, TokenLogin

SERVERS = {"bootstrap.servers": "localhost:9092"}
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
TOKENS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
MODULES = "org.apache.kafka.common.security"
SECRET = "hush-hush"


def settings(**given: Any) -> CommonSettings:
    return CommonSettings(SERVERS, **{name.replace(".", "_"): v for name, v in given.items()})


def test_plaintext_is_the_default_and_needs_nothing() -> None:
    found = settings()
    assert (found.uses_tls, found.uses_sasl) == (False, False)


@pytest.mark.parametrize(
    ("protocol", "tls", "sasl"),
    [
        ("plaintext", False, False),
        ("SSL", True, False),
        ("sasl_plaintext", False, True),
        ("SASL_SSL", True, True),
    ],
)
def test_protocols_are_taken_in_any_case(protocol: str, tls: bool, sasl: bool) -> None:
    login = {"sasl.mechanism": "plain", "sasl.username": "u", "sasl.password": "p"} if sasl else {}
    found = settings(**{"security.protocol": protocol, **login})
    assert (found.uses_tls, found.uses_sasl) == (tls, sasl)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password_comes_from_jaas_or_from_settings(mechanism: str) -> None:
    module = f"{MODULES}.scram.ScramLoginModule"
    jaas = settings(
        **SASL
        | {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="u" password="{SECRET}";',
        }
    )
    plain = settings(
        security_protocol="SASL_SSL",
        sasl_mechanisms=mechanism,
        sasl_username="u",
        sasl_password=SECRET,
    )
    assert login_of(jaas) == login_of(plain) == PasswordLogin(mechanism, "u", SECRET)


def test_a_delegation_token_is_told_by_jaas() -> None:
    jaas = f'{MODULES}.scram.ScramLoginModule required username="u" password="p" tokenauth=true;'
    found = login_of(settings(**SASL | {"sasl.jaas.config": jaas}))
    assert found == PasswordLogin("PLAIN", "u", "p", token=True)


def test_client_credentials_come_from_jaas_or_from_settings() -> None:
    url = "https://id.example/token"
    jaas = settings(
        **TOKENS
        | {
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.login.callback.handler.class": f"{MODULES}.oauthbearer.secured."
            "OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required "
            f'clientId="c" clientSecret="{SECRET}" scope="s" extension_cluster="one";',
        }
    )
    plain = settings(
        **TOKENS
        | {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.oauthbearer.client.id": "c",
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.scope": "s",
        }
    )
    credentials = ClientCredentials(url, "c", SECRET, "s", 10.0)
    assert login_of(jaas) == TokenLogin(credentials, 0.8, {"cluster": "one"})
    assert login_of(plain) == TokenLogin(credentials, 0.8)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"sasl.password": SECRET}, "sasl.password needs security.protocol=SASL_SSL"),
        ({"ssl.keystore.location": "x"}, "needs security.protocol=SSL"),
        ({"security.protocol": "SASL_SSL"}, "needs sasl.mechanism: one of PLAIN, SCRAM"),
        (SASL | {"sasl.mechanism": "GSSAPI"}, r"GSSAPI \(Kerberos\) is not supported"),
        (SASL | {"sasl.mechanism": "AWS_MSK_IAM"}, "AWS_MSK_IAM is not supported"),
        (SASL | {"sasl.kerberos.service.name": "kafka"}, r"no GSSAPI \(Kerberos\)"),
        (SASL, "needs sasl.username and sasl.password, or sasl.jaas.config"),
        (SASL | {"sasl.username": "u"}, "needs sasl.username and sasl.password"),
        (SASL | {"sasl.username": "", "sasl.password": SECRET}, "user name is empty"),
        (
            SASL | {"sasl.jaas.config": f'X required username="u" password="{SECRET}";'},
            "names X, and this sasl.mechanism needs PlainLoginModule or ScramLoginModule",
        ),
        (
            SASL | {"sasl.jaas.config": f'PlainLoginModule required password="{SECRET}";'},
            "no username or no password",
        ),
        (
            SASL
            | {
                "sasl.username": "u",
                "sasl.jaas.config": 'PlainLoginModule required username="u" password="p";',
            },
            "excludes sasl.username",
        ),
        (TOKENS, "needs sasl.oauthbearer.token.provider or sasl.oauthbearer.token.endpoint.url"),
        (
            TOKENS | {"sasl.oauthbearer.token.endpoint.url": "https://x"},
            "needs sasl.oauthbearer.client.credentials.client.id",
        ),
        (
            TOKENS
            | {
                "sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd",
                "sasl.oauthbearer.client.id": "c",
                "sasl.oauthbearer.client.secret": SECRET,
            },
            "must begin with https://",
        ),
        (TOKENS | {"sasl.login.callback.handler.class": "org.example.Mine"}, "must be one of"),
        ({"security.protocol": "SSL", "ssl.context": "text"}, "must be a Python object"),
        ({"security.protocol": "SSL", "ssl.context": 5}, "must be an ssl.SSLContext, not int"),
        (
            {
                "security.protocol": "SSL",
                "ssl.context": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
                "ssl.ca.location": "x",
            },
            "excludes all other ssl settings",
        ),
        ({"security.protocol": "SSL", "ssl.keystore.key": SECRET}, "go together"),
        ({"security.protocol": "SSL", "ssl.key.location": "x"}, "needs ssl.keystore.location"),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "x", "ssl.truststore.location": "x"},
            "ssl.truststore.location is given twice",
        ),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldaps"},
            "must be one of: https, empty",
        ),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "SSLv3"}, "TLSv1.2"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": ""}, "must not be empty"),
    ],
)
def test_what_does_not_go_together_is_refused_at_once(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        CommonSettings(SERVERS | given)
    assert SECRET not in str(caught.value)


def test_leftovers_of_another_protocol_do_no_harm_where_the_protocol_is_said() -> None:
    """Files of settings are often copied from one environment to the next."""
    found = settings(security_protocol="PLAINTEXT", sasl_mechanism="PLAIN", sasl_password=SECRET)
    assert not found.uses_sasl


def test_passwords_are_never_shown() -> None:
    found = ProducerSettings(
        SERVERS,
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="alice",
        sasl_password=SECRET,
        ssl_key_password=SECRET,
    )
    assert "sasl_password=[hidden]" in repr(found)
    assert "sasl_username='alice'" in repr(found)
    assert SECRET not in repr(found)
    assert SECRET not in repr(login_of(found))
    with pytest.raises(ConfigError) as caught:
        ProducerSettings(SERVERS, sasl_password={SECRET: 1})
    assert SECRET not in str(caught.value)


def test_a_password_survives_a_change_of_other_settings() -> None:
    found = settings(**SASL | {"sasl.username": "u", "sasl.password": SECRET})
    assert found.replace(client_id="other").sasl_password == SECRET
