"""What brokers of one cluster know and nobody else does."""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from typing import Final

from moldau.config.option import ConfigError
from moldau.config.options.listeners import ListenerOptions
from moldau.config.values.broker import BrokerConfig
from moldau.coordination import cluster
from moldau.coordination.store import CoordinationStore
from moldau.machine import Machine

log = logging.getLogger(__name__)

_RANDOM_BYTES: Final = 32


async def cluster_secret(config: BrokerConfig, store: CoordinationStore, machine: Machine) -> str:
    """Returns the secret of the settings, else of the file that they name, else of the store: the
    first broker to come puts one there.
    """
    if config.cluster_secret:
        return config.cluster_secret
    path = config.cluster_secret_file
    if path is None:
        proposed = urlsafe_b64encode(machine.secrets.randbytes(_RANDOM_BYTES)).decode()
        return await cluster.ensure_secret(store, proposed)
    option = ListenerOptions.cluster_secret_file.name
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
