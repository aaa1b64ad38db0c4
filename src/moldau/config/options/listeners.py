"""Options: where clients and other brokers connect."""

from __future__ import annotations

import re
from typing import Final

from moldau.config.declare import (
    PER_BROKER,
    names,
    optional_names,
    optional_string,
    password,
    string,
)
from moldau.config.option import Options
from moldau.config.validators import OneOf

PLAINTEXT: Final = "PLAINTEXT"
SECURITY_PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_OF_ONE_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")


def of_listener(listener: str, name: str) -> str:
    """Returns the name of a setting that is for one listener."""
    return f"listener.name.{listener.lower()}.{name}"


def without_listener(name: str) -> str | None:
    """Returns what a setting for one listener is about; None if it is for the whole broker."""
    match = _OF_ONE_LISTENER.fullmatch(name)
    return None if match is None else match[1]


class ListenerOptions(Options):
    """Where clients connect. Only plain connections are served so far: a listener that asks for SSL
    or SASL stops the start with an error, rather than being opened without protection. Listeners
    can be opened, closed and moved while the broker runs: [operations.md](operations.md#listeners).
    """

    title = "Listeners"

    listeners = names(
        ("PLAINTEXT://:9092",),
        "Addresses to listen on, as `NAME://host:port`. An empty host means every interface, port "
        "0 any free port, and an IPv6 address stands in brackets. Names and ports must differ.",
        update=PER_BROKER,
    )
    advertised_listeners = optional_names(
        "The addresses that clients are told to connect to, when they differ from `listeners` "
        "(behind NAT, in a container). Left out, each listener advertises its own host. A "
        "listener on every interface advertises the machine's host name if that resolves, else "
        "the machine's address, else 127.0.0.1: so clients elsewhere get a name that they can "
        "look up, and clients on the same machine always get through without any configuration.",
        update=PER_BROKER,
    )
    listener_security_protocol_map = string(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Which protocol a listener name stands for, as `NAME:PROTOCOL` pairs, so that listeners "
        "can have names of your own.",
        update=PER_BROKER,
    )
    inter_broker_listener_name = optional_string(
        "The listener that other brokers use to reach this one. Left out, it is the listener of "
        "`security.inter.broker.protocol`."
    )
    security_inter_broker_protocol = string(
        PLAINTEXT,
        "The protocol between brokers when `inter.broker.listener.name` is not set. Set one of "
        "the two, not both.",
        allowed=OneOf(*SECURITY_PROTOCOLS),
    )
    cluster_secret = password(
        "What brokers of this cluster know each other by: the same for each of them. Before all "
        "else they prove to each other, by SCRAM-SHA-256, that they know it. Set neither this nor "
        "`cluster.secret.file`, and the first broker puts a random one into the coordination "
        "store, whose readers are trusted then.",
        listed=False,
    )
    cluster_secret_file = optional_string(
        "The file that holds `cluster.secret`, so that nobody else reads it with the settings: "
        "its mode should be 0600.",
        listed=False,
    )
    control_plane_listener_name = optional_string(
        "A ZooKeeper-era listener for the controller's requests. Such a listener is opened like "
        "any other.",
        inert=True,
        listed=False,
    )
