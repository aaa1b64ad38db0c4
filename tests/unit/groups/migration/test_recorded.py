"""What Apache Kafka 4.3.1 answered to the script of changing groups, a shard answers too."""

from __future__ import annotations

import pytest
from tests.unit.groups.migration import scenario
from tests.unit.groups.migration.runner import ShardRunner, VirtualCaller

from moldau.config.values.broker import BrokerConfig
from moldau.groups.settings import GroupSettings


@pytest.mark.parametrize("policy", scenario.POLICIES)
def test_the_answers_are_those_of_apache_kafka(policy: str) -> None:
    settings = GroupSettings.from_config(BrokerConfig(scenario.settings(policy)))
    runner = ShardRunner(settings, scenario.TOPICS)
    ids = {name: runner.topics.topic_id(name) for name in scenario.TOPICS}
    script = scenario.Script(VirtualCaller(runner), {n: i for n, i in ids.items() if i is not None})
    for answer, expected in zip(scenario.run(script), scenario.moldau_answers(policy), strict=True):
        assert answer == expected
