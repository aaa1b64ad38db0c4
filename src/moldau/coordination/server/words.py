"""ZooKeeper's words of four letters: what an operator types into netcat."""

from __future__ import annotations

from dataclasses import dataclass

from moldau.version import __version__


@dataclass(frozen=True, slots=True)
class Figures:
    received: int
    sent: int
    connections: int
    unanswered: int
    sessions: int
    zxid: int
    nodes: int


def answer_word(word: str, figures: Figures) -> str:
    """Returns what is said to a word; nothing to one that is not known."""
    match word:
        case "ruok":
            return "imok"
        case "isro":
            return "rw"
        case "srvr" | "stat":
            return _report(figures)
        case "mntr":
            return _figures(figures)
        case _:
            return ""


def _report(figures: Figures) -> str:
    return (
        f"Zookeeper version: moldau-{__version__}\n"
        f"Received: {figures.received}\n"
        f"Sent: {figures.sent}\n"
        f"Connections: {figures.connections}\n"
        f"Outstanding: {figures.unanswered}\n"
        f"Zxid: {figures.zxid:#x}\n"
        "Mode: standalone\n"
        f"Node count: {figures.nodes}\n"
    )


def _figures(figures: Figures) -> str:
    values = {
        "zk_version": f"moldau-{__version__}",
        "zk_server_state": "standalone",
        "zk_packets_received": figures.received,
        "zk_packets_sent": figures.sent,
        "zk_num_alive_connections": figures.connections,
        "zk_outstanding_requests": figures.unanswered,
        "zk_global_sessions": figures.sessions,
        "zk_znode_count": figures.nodes,
    }
    return "".join(f"{name}\t{value}\n" for name, value in values.items())
