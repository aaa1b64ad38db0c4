"""How far a pipeline is behind, where its topics can be told apart."""

from __future__ import annotations

from textwrap import dedent

from tests.client.conftest import NewTopicFactory
from tests.spark.records import produce
from tests.support.target import Target

from moldau.client.admin import Admin
from moldau.model import TopicPartition
from moldau.spark.pipeline.group_offsets import commit_offsets
from moldau.spark.pipeline.lags import lags_of
from moldau.spark.pipeline.parse import parse_pipeline
from moldau.spark.pipeline.progress import Progress
from moldau.spark.pipeline.spec import Pipeline


def reading(topic: str, group: str, *clusters: str) -> Pipeline:
    sources = "".join(
        dedent(f'''
            [[sources]]
            name = "s{number}"
            topic = "{topic}"
            bootstrap_servers = "{servers}"
            group_id = "{group}"
            [[sinks]]
            from = "s{number}"
            console = true
        ''')
        for number, servers in enumerate(clusters)
    )
    return parse_pipeline(f'name = "p"\n{sources}', "p.toml")


def test_topics_of_two_clusters_with_one_name_are_not_mixed_up(
    moldau: Target, topics: NewTopicFactory
) -> None:
    """Offsets of the one say nothing about the other."""
    topic = topics()
    produce(moldau.bootstrap, topic, [{"value": b"x"}] * 5)
    place = TopicPartition(topic, 0)
    last = {"s0": Progress("s0", 0, "", 2, 0.0, 0, offsets={topic: {"0": 2}})}
    one = reading(topic, f"{topic}-1", moldau.bootstrap)
    two = reading(topic, f"{topic}-2", moldau.bootstrap, "127.0.0.1:1")
    for pipeline in (one, two):
        commit_offsets(pipeline, last)
    assert lags_of(one, {place: 2}, 30)[place].records == 3
    assert lags_of(two, {place: 2}, 30) == {}
    with Admin({"bootstrap.servers": moldau.bootstrap}) as admin:
        assert admin.list_group_offsets(f"{topic}-1")[place].offset == 2
        assert not admin.list_group_offsets(f"{topic}-2")
