"""What brokers of one cluster know and nobody else does.

A broker with another secret would be worse than none: should it win the controller's office, nobody
else would take its word, and it would be in charge for ever. So it does not join. What tells one
secret from another is kept in the store: the secret itself if the store is where it comes from,
else a verifier, from which nobody learns a secret that is not guessed.
"""

from __future__ import annotations

import hashlib
import logging
from base64 import urlsafe_b64encode
from typing import Final

from moldau.config.option import ConfigError
from moldau.config.options.listeners import ListenerOptions
from moldau.config.values.broker import BrokerConfig
from moldau.coordination import cluster, paths
from moldau.coordination.store import CoordinationStore
from moldau.coordination.znodes import SecretVerifier
from moldau.machine import Machine

log = logging.getLogger(__name__)

_RANDOM_BYTES: Final = 32
_SALT_BYTES: Final = 16
_ITERATIONS: Final = 100_000
"""Whoever reads the store may guess, a few times a second."""
_SECRET: Final = ListenerOptions.cluster_secret.name
_SECRET_FILE: Final = ListenerOptions.cluster_secret_file.name


async def cluster_secret(config: BrokerConfig, store: CoordinationStore, machine: Machine) -> str:
    """Returns the secret of the settings, else of the file that they name, else of the store: the
    first broker to come puts one there.
    """
    if config.cluster_secret:
        secret = config.cluster_secret
    elif config.cluster_secret_file is not None:
        secret = await _read(config.cluster_secret_file, machine)
    else:
        await _refuse_unconfigured(store)
        proposed = urlsafe_b64encode(machine.secrets.randbytes(_RANDOM_BYTES)).decode()
        secret = await cluster.ensure_secret(store, proposed)
        # Once more: of two that come at the same moment, the later one sees what the other left.
        await _refuse_unconfigured(store)
        return secret
    await _verify(secret, store, machine)
    return secret


async def _refuse_unconfigured(store: CoordinationStore) -> None:
    if await cluster.get_secret_verifier(store) is not None:
        raise ConfigError(
            "the brokers of this cluster know each other by a secret that is configured: set "
            f"{_SECRET} or {_SECRET_FILE} as they do"
        )


async def _verify(secret: str, store: CoordinationStore, machine: Machine) -> None:
    """Raises ConfigError if the cluster's secret is another one."""
    run_in_thread = machine.threads.run

    async def key(salt: str, iterations: int) -> str:
        derived = await run_in_thread(
            hashlib.pbkdf2_hmac, "sha256", secret.encode(), bytes.fromhex(salt), iterations
        )
        return derived.hex()

    place, kept = paths.CLUSTER_SECRET, await cluster.get_secret(store)
    is_right = kept == secret
    if kept is None:
        salt = machine.secrets.randbytes(_SALT_BYTES).hex()
        proposed = SecretVerifier(salt, _ITERATIONS, await key(salt, _ITERATIONS))
        place, verifier = (
            paths.SECRET_VERIFIER,
            await cluster.ensure_secret_verifier(store, proposed),
        )
        is_right = verifier.key == await key(verifier.salt, verifier.iterations)
        if await cluster.get_secret(store) not in (None, secret):  # it came at the same moment
            place, is_right = paths.CLUSTER_SECRET, False
    if not is_right:
        raise ConfigError(
            f"{_SECRET} or {_SECRET_FILE}: the brokers of this cluster have another secret. To "
            f"change it for all, delete node {place} of the coordination store while no broker runs"
        )


async def _read(path: str, machine: Machine) -> str:
    option = _SECRET_FILE
    disk, run_in_thread = machine.disk, machine.threads.run
    try:
        secret = (await run_in_thread(disk.read, path)).decode().strip()
        if not await run_in_thread(disk.is_private, path):
            log.warning("%s=%s can be read by others than its owner: chmod 600", option, path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{option}={path} cannot be read: {error}") from error
    if not secret:
        raise ConfigError(f"{option}={path} names an empty file")
    return secret
