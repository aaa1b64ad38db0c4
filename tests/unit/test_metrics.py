"""Names and the text form of metrics."""

from __future__ import annotations

import pytest

from moldau.metrics import Registry


@pytest.mark.parametrize(
    ("jmx_name", "name"),
    [
        (
            "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
            "kafka_log_logcleanermanager_uncleanable_partitions_count",
        ),
        (
            "kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups",
            "kafka_coordinator_group_groupmetadatamanager_numgroups",
        ),
    ],
)
def test_names_are_those_that_the_jmx_exporter_makes(jmx_name: str, name: str) -> None:
    registry = Registry()
    registry.gauge(jmx_name, "", lambda: 0)
    assert [metric.name for metric in registry] == [name]


def test_the_text_form_is_that_of_prometheus() -> None:
    registry = Registry()
    registry.gauge("kafka.a:type=B,name=C", "Something.", lambda: 0.5)
    registry.counter(
        "kafka.a:type=B,name=EventsPerSec",
        "Events.",
        lambda: {'odd "name"\n\\': 2**53, "plain": 1},
        tag="what",
    )
    assert registry.render() == (
        "# HELP kafka_a_b_c Something.\n"
        "# TYPE kafka_a_b_c gauge\n"
        "kafka_a_b_c 0.5\n"
        "# HELP kafka_a_b_events_total Events.\n"
        "# TYPE kafka_a_b_events_total counter\n"
        'kafka_a_b_events_total{what="odd \\"name\\"\\n\\\\"} 9007199254740992\n'
        'kafka_a_b_events_total{what="plain"} 1\n'
    )


def test_values_are_read_when_they_are_asked_for() -> None:
    registry = Registry()
    values = iter([1, 2])
    registry.gauge("kafka.a:type=B,name=C", "", lambda: next(values))
    assert registry.render().endswith(" 1\n")
    assert registry.render().endswith(" 2\n")


def test_a_name_is_given_once() -> None:
    registry = Registry()
    registry.gauge("kafka.a:type=B,name=C", "", lambda: 0)
    with pytest.raises(ValueError, match="kafka_a_b_c is there already"):
        registry.gauge("kafka.a:type=B,name=C", "", lambda: 0)
