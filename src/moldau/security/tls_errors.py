"""Why there is no TLS connection, in a sentence that names the setting to change."""

from __future__ import annotations

import ssl
from typing import Final

from moldau.errors import KafkaError
from moldau.request_errors import ConnectionLostError, SslAuthenticationError

# OpenSSL's numbers of what can be wrong with a certificate (x509_vfy.h).
_WRONG_NAME: Final = (62, 64)
_UNKNOWN_AUTHORITY: Final = (2, 18, 19, 20, 21)
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
_CERTIFICATE_ALERTS: Final = (
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE_REQUIRED",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_HANDSHAKE_FAILURE",
    "ALERT_UNKNOWN_CA",
    "ALERT_ACCESS_DENIED",
)


def tls_failure(error: BaseException, where: str, *, has_certificate: bool) -> KafkaError:
    """What an error of the handshake, or of the connection right after it, means."""
    cause = error if isinstance(error, ssl.SSLError) else error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return SslAuthenticationError(_not_trusted(cause, where))
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
        return SslAuthenticationError(_refused(cause, where, has_certificate))
    hint = "a listener without TLS does that (security.protocol=PLAINTEXT or SASL_PLAINTEXT)"
    if not has_certificate:
        hint += ", or one that asks for a client's certificate (ssl.keystore.location)"
    return ConnectionLostError(f"{where} broke off the TLS handshake; {hint}")


def _not_trusted(error: ssl.SSLCertVerificationError, where: str) -> str:
    why = error.verify_message.rstrip(".")
    if error.verify_code in _WRONG_NAME:
        return (
            f"The certificate of {where} is for other names: {why}. Connect by one of those names; "
            "an empty ssl.endpoint.identification.algorithm does without the check"
        )
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return (
            f"The certificate of {where} is not from an authority that this client trusts: {why}. "
            "ssl.truststore.location says whom to trust"
        )
    return f"The certificate of {where} is not valid: {why}"


def _refused(error: ssl.SSLError, where: str, has_certificate: bool) -> str:
    reason = error.reason or str(error)
    if reason in _NO_TLS:
        return (
            f"{where} does not speak TLS ({reason}): set security.protocol=PLAINTEXT, or "
            "SASL_PLAINTEXT with a login"
        )
    if reason.endswith(_CERTIFICATE_ALERTS):
        if has_certificate:
            return f"{where} does not accept this client's certificate ({reason})"
        return f"{where} asks for a client's certificate ({reason}): set ssl.keystore.location"
    if reason.endswith("ALERT_PROTOCOL_VERSION") or "UNSUPPORTED_PROTOCOL" in reason:
        return f"{where} speaks no version of TLS in ssl.enabled.protocols ({reason})"
    return f"No TLS connection to {where}: {reason}"
