"""What is accepted without effect: the data of ``ignored.txt`` and ``replaced.properties``.

They are read when somebody asks; a broker whose settings are all options never does.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from moldau.config.options.listeners import without_listener
from moldau.config.properties import parse_properties

_SECRET_ENDINGS: Final = (
    "password",
    "passphrase",
    "secret",
    "secret.key",
    "master.key",
    "jaas.config",
    "keystore.key",
    "certificate.chain",
    "truststore.certificates",
)


Family = tuple[str, str, list[str]]
"""Title, reason and names of settings without effect."""


def families() -> list[Family]:
    blocks: list[Family] = []
    for line in _data("ignored.txt").splitlines():
        if line.startswith(" "):
            blocks[-1][2].append(line.strip())
        elif line and not line.startswith("#"):
            title, _, reason = line.partition(": ")
            blocks.append((title, reason, []))
    return blocks


@cache
def ignored_names() -> frozenset[str]:
    return frozenset(name for _, _, names in families() for name in names)


def is_ignored(name: str) -> bool:
    """Returns whether the setting, unless it is an option, is known elsewhere."""
    return without_listener(name) is not None or name in ignored_names()


@cache
def replacements() -> dict[str, str]:
    """What to write instead of settings of long ago, which deserve a warning."""
    return parse_properties(_data("replaced.properties"))


def is_secret(name: str) -> bool:
    """Returns whether a setting without effect may hold something that must not be shown."""
    return name.endswith(_SECRET_ENDINGS)


def _data(name: str) -> str:
    return Path(__file__).with_name(name).read_text()
