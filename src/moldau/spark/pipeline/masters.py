"""Where a pipeline runs: what a master URL needs, told before Spark starts."""

from __future__ import annotations

import re
from typing import Final

from moldau.spark.pipeline.spec import ConsoleSink, Pipeline, Sink, TopicSink

_KINDS: Final = {
    "local": re.compile(r"local(\[(\d+|\*)(,\s*\d+)?\])?"),
    "spark://": re.compile(r"spark://[^/:,]+:\d+(,[^/:,]+:\d+)*"),
    "k8s://": re.compile(r"k8s://.+"),
    "sc://": re.compile(r"sc://[^/:;]+.*"),
    "yarn": re.compile(r"yarn"),
}
_EXAMPLES: Final = "local[*], spark://host:7077, k8s://https://host:6443, sc://host:15002 or yarn"
_IMAGES: Final = (
    "spark.kubernetes.container.image",
    "spark.kubernetes.executor.container.image",
)


def master_problem(pipeline: Pipeline) -> str | None:
    """Why this pipeline cannot run on its master; None if nothing speaks against it."""
    master = pipeline.master
    kind = next((kind for kind, form in _KINDS.items() if form.fullmatch(master)), None)
    match kind:
        case None:
            return f"master {pipeline.shown_master!r} is none of {_EXAMPLES}"
        case "sc://":
            return _connect_problem(pipeline)
        case "k8s://" if not any(name in pipeline.config for name in _IMAGES):
            return (
                f"master {master} needs an image with Python, Spark and Moldau for its pods: "
                f'config = {{ "{_IMAGES[0]}" = "registry/image:tag" }}'
            )
    return None


def writes_on_driver(sink: Sink) -> bool:
    return not isinstance(sink, (ConsoleSink, TopicSink))


def _connect_problem(pipeline: Pipeline) -> str | None:
    if pipeline.trigger.idle is not None:
        return (
            f"idle of [trigger] needs a driver on this machine, and with {pipeline.shown_master} "
            "that is a server: leave it out, or take another master"
        )
    on_driver = [sink.name for sink in pipeline.sinks if writes_on_driver(sink)]
    if not on_driver:
        return None
    return (
        f"sink {on_driver[0]} writes from the driver, and with {pipeline.shown_master} that is a "
        "server: all sinks but topics and the console need another master"
    )
