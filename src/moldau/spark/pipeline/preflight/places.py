"""Where Spark runs, and what it needs there: a Java, a master that answers; registries."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from moldau.spark.connect_server import ServerNotFoundError, check_connect_server
from moldau.spark.java import JavaNotFoundError, find_java
from moldau.spark.pipeline.preflight.found import Findings
from moldau.spark.pipeline.problems import Problem
from moldau.spark.pipeline.spec import Pipeline, TopicSource


def check_java() -> Findings:
    try:
        remark = find_java().remark
    except JavaNotFoundError as error:
        return Findings(problems=[Problem(0, str(error))])
    return Findings(notes=[remark] if remark is not None else [])


def check_master(pipeline: Pipeline, patience: float) -> Findings:
    """Spark itself would go on trying for minutes, and tell in objects of Java's."""
    failures = []
    for host, port in _addresses(pipeline.master):
        try:
            socket.create_connection((host, port), timeout=patience).close()
        except OSError as error:
            failures.append(f"{host}:{port} ({error.strerror or error})")
        else:
            return Findings()
    if not failures:
        return Findings()
    message = f"no Spark master answers at {', '.join(failures)}: master = {pipeline.master!r}"
    return Findings(problems=[pipeline.problem(("spark", "master"), message)])


def check_server(pipeline: Pipeline, patience: float) -> Findings:
    try:
        check_connect_server(pipeline.master, patience)
    except ServerNotFoundError as error:
        return Findings(problems=[pipeline.problem(("spark", "master"), str(error))])
    return Findings()


def check_registry_of(pipeline: Pipeline, source: TopicSource, patience: float) -> Findings:
    from moldau.spark.decode.registry import RegistryError, check_registry  # and Arrow

    try:
        check_registry(source.options["schema.registry.url"], patience)
    except RegistryError as error:
        place = pipeline.declared(source, "schema_registry", "options")
        return Findings(problems=[pipeline.problem(place, f"source {source.name}: {error}")])
    return Findings()


def _addresses(master: str) -> list[tuple[str, int]]:
    if master.startswith("spark://"):
        pairs = [one.rpartition(":") for one in master.removeprefix("spark://").split(",")]
        return [(host, int(port)) for host, _, port in pairs]
    if master.startswith("k8s://"):
        place = urlsplit(master.removeprefix("k8s://"))
        if place.hostname is None:
            return []
        return [(place.hostname, place.port or (80 if place.scheme == "http" else 443))]
    return []
