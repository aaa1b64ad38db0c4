"""Settings of TLS and SASL. Java's properties work as they are, and so do librdkafka's names."""

from __future__ import annotations

from typing import Final

from moldau.client.settings.base import Settings
from moldau.client.settings.objects import component, python_object
from moldau.config.declare import (
    double,
    integer,
    names,
    optional_class,
    optional_string,
    password,
    string,
)
from moldau.config.option import ConfigError
from moldau.config.options.listeners import PLAINTEXT, SECURITY_PROTOCOLS
from moldau.config.validators import EachOf, OneOf

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_JAVA_OIDC: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
_TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_STORES: Final = "PEM", "PKCS12", "JKS"
_LOGINS: Final = ("sasl.jaas.config", "sasl.username", "sasl.password", "sasl.oauthbearer.")


class SecuritySettings(Settings):
    """Who this client is, and how it makes sure of whom it talks to."""

    security_protocol = string(
        PLAINTEXT,
        "How to talk to brokers: with TLS (SSL), with a login (SASL_PLAINTEXT), with both "
        "(SASL_SSL), or with neither.",
        convert=str.upper,
        allowed=OneOf(*SECURITY_PROTOCOLS),
    )

    ssl_context = python_object(
        "An ssl.SSLContext to use as it is, instead of all other ssl settings."
    )
    ssl_enabled_protocols = names(
        _TLS_VERSIONS, "The versions of TLS to use.", allowed=EachOf(*_TLS_VERSIONS)
    )
    ssl_endpoint_identification_algorithm = string(
        "https",
        "Whether a broker's certificate must be for the host that was asked for.",
        convert=str.lower,
        allowed=OneOf("https", ""),
    )
    ssl_truststore_location = optional_string(
        "A file with the certificates of authorities to trust, or a folder of such files; those "
        "of the operating system by default."
    )
    ssl_truststore_certificates = password("The same as PEM text.")
    ssl_truststore_type = optional_string(
        "The format of the file: PEM, or PKCS12 (which needs the extra tls); by default what it "
        "looks like.",
        allowed=OneOf(*_STORES),
    )
    ssl_truststore_password = password("Opens a PKCS12 file.")
    ssl_keystore_location = optional_string(
        "A file with this client's certificate chain, and its private key unless ssl.key.location "
        "has it; for brokers that ask for one (ssl.client.auth)."
    )
    ssl_keystore_certificate_chain = password("The certificate chain as PEM text.")
    ssl_keystore_key = password("The private key as PEM text.")
    ssl_keystore_type = optional_string("As ssl.truststore.type.", allowed=OneOf(*_STORES))
    ssl_keystore_password = password("Opens a PKCS12 file.")
    ssl_key_location = optional_string("The file with the private key, if it is another one.")
    ssl_key_password = password("Decrypts the private key.")

    sasl_mechanism = string(
        "GSSAPI",
        f"How to log in: {', '.join(MECHANISMS)}. Kafka's default, GSSAPI, is not supported, so "
        "SASL needs this.",
        convert=str.upper,
    )
    sasl_jaas_config = password(
        "User name and password, or OAUTHBEARER's options, as Java's clients have them: "
        '...ScramLoginModule required username="…" password="…";'
    )
    sasl_username = optional_string("The user name, instead of sasl.jaas.config.")
    sasl_password = password("The password, instead of sasl.jaas.config.")
    sasl_oauthbearer_token_provider = component(
        None,
        "What gives tokens: a function, coroutine function, or object with token(), that returns "
        "the token, or a pair of it and the time when it expires (seconds since 1970).",
    )
    sasl_oauthbearer_token_endpoint_url = optional_string(
        "Where tokens are got for a client id and a secret (OpenID Connect, client credentials): "
        "https, or http on this machine; redirects are not followed."
    )
    sasl_oauthbearer_client_credentials_client_id = optional_string("The client id for it.")
    sasl_oauthbearer_client_credentials_client_secret = password("The secret for it.")
    sasl_oauthbearer_scope = optional_string("The scope to ask for.")
    sasl_oauthbearer_method = optional_string(
        "sasl.oauthbearer.token.endpoint.url is enough by itself.",
        allowed=OneOf("default", "oidc"),
        inert=True,
    )
    sasl_login_callback_handler_class = optional_class(
        "Java's class for sasl.oauthbearer.token.endpoint.url, which is enough by itself.",
        allowed=OneOf(*_JAVA_OIDC),
        inert=True,
    )
    sasl_login_read_timeout_ms = integer(
        10_000, "How long the token endpoint may take to answer.", at_least=1
    )
    sasl_login_refresh_window_factor = double(
        0.8, "A token is got anew after this part of its life.", at_least=0.5
    )

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL")

    def _check(self) -> None:
        super()._check()
        self._check_protocol()
        self._check_tls()
        if self.uses_sasl:
            # Not paid for by those who do not log in.
            from moldau.client.security import login_of

            login_of(self)

    def _check_protocol(self) -> None:
        """Whoever gives a login or a certificate and forgets the protocol means one of these."""
        if "security.protocol" in self.explicit:
            return
        for name in sorted(self.explicit):
            if name.startswith(_LOGINS):
                raise ConfigError(
                    f"{name} needs security.protocol=SASL_SSL (or SASL_PLAINTEXT, without TLS)"
                )
            if name.startswith("ssl."):
                raise ConfigError(f"{name} needs security.protocol=SSL or SASL_SSL")

    def _check_tls(self) -> None:
        named = sorted(name for name in self.explicit if name.startswith("ssl."))
        if self.ssl_context is not None:
            import ssl

            self._require(
                isinstance(self.ssl_context, ssl.SSLContext),
                f"ssl_context must be an ssl.SSLContext, not {type(self.ssl_context).__name__}",
            )
            self._require(named == ["ssl.context"], "ssl_context excludes all other ssl settings")
        self._require(bool(self.ssl_enabled_protocols), "ssl.enabled.protocols must not be empty")
        texts = (self.ssl_keystore_certificate_chain, self.ssl_keystore_key)
        self._require(
            (texts[0] is None) == (texts[1] is None),
            "ssl.keystore.certificate.chain and ssl.keystore.key go together",
        )
        self._require(
            texts[0] is None or self.ssl_keystore_location is None,
            "ssl.keystore.location and ssl.keystore.key exclude each other",
        )
        self._require(
            self.ssl_truststore_location is None or self.ssl_truststore_certificates is None,
            "ssl.truststore.location and ssl.truststore.certificates exclude each other",
        )
        self._require(
            self.ssl_key_location is None or self.ssl_keystore_location is not None,
            "ssl.key.location needs ssl.keystore.location, the file with the certificate chain",
        )

    def _require(self, condition: bool, message: str) -> None:
        if not condition:
            raise ConfigError(message)
