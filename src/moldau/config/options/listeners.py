"""Options: where clients and other brokers connect."""

from __future__ import annotations

from typing import Final

from moldau.config.declare import names, optional_names, optional_string, string
from moldau.config.option import Options
from moldau.config.validators import OneOf

PLAINTEXT: Final = "PLAINTEXT"
SECURITY_PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class ListenerOptions(Options):
    """Where clients connect. Only plain connections are served so far: a listener that asks for SSL
    or SASL stops the start with an error, rather than being opened without protection.
    """

    title = "Listeners"

    listeners = names(
        ("PLAINTEXT://:9092",),
        "Addresses to listen on, as `NAME://host:port`. An empty host means every interface, port "
        "0 any free port, and an IPv6 address stands in brackets. Names and ports must differ.",
    )
    advertised_listeners = optional_names(
        "The addresses that clients are told to connect to, when they differ from `listeners` "
        "(behind NAT, in a container). Left out, each listener advertises its own host. A "
        "listener on every interface advertises the machine's host name if that resolves, else "
        "the machine's address, else 127.0.0.1: so clients elsewhere get a name that they can "
        "look up, and clients on the same machine always get through without any configuration."
    )
    listener_security_protocol_map = string(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Which protocol a listener name stands for, as `NAME:PROTOCOL` pairs, so that listeners "
        "can have names of your own.",
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
    control_plane_listener_name = optional_string(
        "A ZooKeeper-era listener for the controller's requests. Such a listener is opened like "
        "any other.",
        inert=True,
        listed=False,
    )
