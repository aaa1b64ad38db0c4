"""``moldau up --brokers N``: coordination and brokers as processes, under one supervisor."""

from __future__ import annotations

from pathlib import Path

from moldau.cli.cluster_lock import locked_cluster
from moldau.cli.local_cluster import LocalCluster, prepare, refuse_taken_ports
from moldau.cli.output import print_line, tell
from moldau.cli.serve import configure_logging, end_with_parent, what_to_try
from moldau.cli.supervisor import Supervisor


def up_cluster(
    port: int, host: str, data_dir: Path, override: list[str], log_level: str, brokers: int
) -> int:
    """Run a cluster until Ctrl-C."""
    configure_logging(log_level)
    cluster = prepare(host, port, brokers, data_dir)
    from moldau.machine.real.loop import run

    end_with_parent()
    with locked_cluster(cluster.directory) as lock:
        if port:
            refuse_taken_ports(cluster)
        run(_supervise(cluster, override, log_level, lock))
    return 0


async def _supervise(cluster: LocalCluster, override: list[str], log_level: str, lock: int) -> None:
    stages = [[cluster.coordination(log_level)], cluster.brokers(override, log_level)]

    def on_ready() -> None:
        tell(_banner(cluster))
        where = ",".join(cluster.bootstrap_servers)
        print_line(f"moldau ready: {len(cluster.ports)} brokers listening on {where}", flush=True)

    await Supervisor(stages, held=(lock,)).run(on_ready)


def _banner(cluster: LocalCluster) -> str:
    from moldau import __version__

    addresses = cluster.bootstrap_servers
    return "\n".join(
        (
            f"Moldau {__version__} is up, with {len(addresses)} brokers.",
            "",
            f"  bootstrap servers  {','.join(addresses)}",
            f"  coordination       {cluster.coordination_address} (ZooKeeper's protocol)",
            f"  data in            {cluster.directory}",
            "",
            *what_to_try(addresses[0]),
        )
    )
