"""Where Spark runs, and what is needed there: a Java, a master, a free port; registries."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit

from moldau.spark.connect_server import ServerNotFoundError, check_connect_server
from moldau.spark.java import JavaNotFoundError, find_java
from moldau.spark.pipeline.preflight.found import Findings
from moldau.spark.pipeline.problems import Problem
from moldau.spark.pipeline.runs.lock import is_locked
from moldau.spark.pipeline.runs.places import place_of
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


def check_metrics(pipeline: Pipeline) -> Findings:
    """Somebody else's is the place where metrics shall be; the pipeline itself may be running."""
    if pipeline.metrics is None or is_locked(place_of(pipeline)):
        return Findings()
    host, _, port = pipeline.metrics.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, int(port)), family=family).close()
    except OSError as error:
        said = f"metrics cannot be served at {pipeline.metrics}: {_told(error)}"
        place = ("metrics",)
        line = pipeline.lines.of(place) if pipeline.lines.has(place) else 0  # --metrics
        return Findings(problems=[Problem(line, said)])
    return Findings()


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


def _told(error: OSError) -> str:
    """Without what Python adds to it."""
    return os.strerror(error.errno) if error.errno else str(error)


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
