"""What may be created: the checks, their order, codes and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from uuid import UUID, uuid4

import pytest

from moldau.controller.context import ControllerContext, Topic
from moldau.controller.create_topics import (
    MAX_PARTITIONS_PER_BATCH,
    TopicPlan,
    initial_states,
    plan_partitions,
    plan_topics,
)
from moldau.controller.requests import NewPartitions, NewTopic
from moldau.controller.settings import ControllerSettings
from moldau.coordination.znodes import BrokerRegistration
from moldau.errors import ErrorCode, KafkaError


def context(*brokers: int) -> ControllerContext:
    made = ControllerContext(epoch=3)
    made.brokers = {one: BrokerRegistration(one, ()) for one in brokers or (1,)}
    made.add_topic(Topic("there", UUID(int=9), {0: (1,), 1: (1,)}))
    made.add_topic(Topic("dotted.name", UUID(int=10), {0: (1,)}))
    return made


def plan(
    *requests: NewTopic,
    where: ControllerContext | None = None,
    settings: ControllerSettings | None = None,
) -> list[TopicPlan | KafkaError]:
    return plan_topics(
        where or context(), requests, settings or ControllerSettings(), Random(1), uuid4
    )


def refusal(request: NewTopic, where: ControllerContext | None = None) -> KafkaError:
    (answer,) = plan(request, where=where)
    assert isinstance(answer, KafkaError)
    return answer


def test_counts_or_their_defaults() -> None:
    settings = ControllerSettings(num_partitions=4, default_replication_factor=2)
    first, second = plan(
        NewTopic(name="a", num_partitions=3, replication_factor=1),
        NewTopic(name="b"),
        where=context(1, 2),
        settings=settings,
    )
    assert isinstance(first, TopicPlan)
    assert (len(first.assignment), first.replication_factor) == (3, 1)
    assert isinstance(second, TopicPlan)
    assert (len(second.assignment), second.replication_factor) == (4, 2)
    assert first.topic_id != second.topic_id


def test_a_manual_assignment_is_taken_as_it_is() -> None:
    (answer,) = plan(
        NewTopic(name="a", assignments=[(1, [2, 1]), (0, [1, 3])]), where=context(1, 2, 3)
    )
    assert isinstance(answer, TopicPlan)
    assert answer.assignment == {0: (1, 3), 1: (2, 1)}
    assert list(answer.assignment) == [0, 1]


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (NewTopic(name="there"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'there' already exists."),
        (NewTopic(name=""), ErrorCode.INVALID_TOPIC_EXCEPTION, "the empty string"),
        (NewTopic(name="a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "ASCII alphanumerics"),
        (
            NewTopic(name="__cluster_metadata"),
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (
            NewTopic(name="dotted_name"),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic 'dotted_name' collides with existing topic: dotted.name",
        ),
        (NewTopic(name="a", num_partitions=0), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (NewTopic(name="a", num_partitions=-2), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (
            NewTopic(name="a", replication_factor=0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "larger than 0",
        ),
        (
            NewTopic(name="a", replication_factor=-2),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "larger than 0",
        ),
        (
            NewTopic(name="a", replication_factor=2),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 2 time(s): The target replication factor of 2",
        ),
        (
            NewTopic(name="a", assignments=[(0, [1])], num_partitions=1),
            ErrorCode.INVALID_REQUEST,
            "numPartitions was not set to -1",
        ),
        (
            NewTopic(name="a", assignments=[(0, [1])], replication_factor=1),
            ErrorCode.INVALID_REQUEST,
            "replication factor was not set to -1",
        ),
        (
            NewTopic(name="a", assignments=[(0, [1]), (2, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "consecutive 0-based",
        ),
        (
            NewTopic(name="a", assignments=[(0, [1]), (0, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "multiple manual partition assignments for partition 0",
        ),
        (
            NewTopic(name="a", assignments=[(0, [7])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "includes broker 7, but no such broker is registered",
        ),
        (
            NewTopic(name="a", assignments=[(0, [1, 1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "includes the broker 1 more than once",
        ),
        (
            NewTopic(name="a", assignments=[(0, [])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "empty replica list",
        ),
        (
            NewTopic(name="a", configs={"b": None, "a": "1", "c": None}),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: b,c",
        ),
    ],
)
def test_what_is_refused(request_: NewTopic, code: ErrorCode, message: str) -> None:
    error = refusal(request_)
    assert error.code is code
    assert message in error.message


def test_replica_lists_must_have_one_length() -> None:
    error = refusal(NewTopic(name="a", assignments=[(0, [1]), (1, [1, 2])]), context(1, 2))
    assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "a partition with 2 replica(s)" in error.message
    assert "which have 1 replica(s)" in error.message


def test_a_name_given_twice_is_refused_both_times_and_others_are_not() -> None:
    first, second, other = plan(NewTopic(name="a"), NewTopic(name="a"), NewTopic(name="b"))
    for answer in (first, second):
        assert isinstance(answer, KafkaError)
        assert answer.code is ErrorCode.INVALID_REQUEST
        assert answer.message == "Duplicate topic name."
    assert isinstance(other, TopicPlan)


def test_two_colliding_names_in_one_request_do_not_both_pass() -> None:
    first, second = plan(NewTopic(name="x.y"), NewTopic(name="x_y"))
    assert isinstance(first, TopicPlan)
    assert isinstance(second, KafkaError)
    assert second.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_topic_on_its_way_out_still_blocks_its_name() -> None:
    where = context()
    where.deleting.add("there")
    error = refusal(NewTopic(name="there"), where)
    assert error.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert "marked for deletion" in error.message


def test_settings_are_checked_by_the_function_handed_in() -> None:
    seen: list[Mapping[str, str]] = []

    def validate(overrides: Mapping[str, str]) -> None:
        seen.append(overrides)
        if "bad" in overrides:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "Unknown topic config name: bad")

    settings = ControllerSettings(validate_topic_config=validate)
    good, bad = plan(
        NewTopic(name="a", configs={"retention.ms": "1"}),
        NewTopic(name="b", configs={"bad": "1"}),
        settings=settings,
    )
    assert isinstance(good, TopicPlan)
    assert good.configs == {"retention.ms": "1"}
    assert isinstance(bad, KafkaError)
    assert bad.message == "Unknown topic config name: bad"
    assert seen == [{"retention.ms": "1"}, {"bad": "1"}]


def test_a_request_for_too_many_partitions_is_refused_as_a_whole() -> None:
    half = MAX_PARTITIONS_PER_BATCH // 2 + 1
    answers = plan(NewTopic(name="a", num_partitions=half), NewTopic(name="b", num_partitions=half))
    for answer in answers:
        assert isinstance(answer, KafkaError)
        assert answer.code is ErrorCode.POLICY_VIOLATION
    (huge,) = plan(NewTopic(name="a", num_partitions=2**31 - 1))
    assert isinstance(huge, KafkaError)
    (most,) = plan(NewTopic(name="a", num_partitions=MAX_PARTITIONS_PER_BATCH))
    assert isinstance(most, TopicPlan)


def test_partitions_are_added_behind_the_existing_ones() -> None:
    settings = ControllerSettings()
    added = plan_partitions(context(), NewPartitions(topic="there", count=5), settings, Random(1))
    assert added == {2: (1,), 3: (1,), 4: (1,)}
    manual = plan_partitions(
        context(1, 2),
        NewPartitions(topic="there", count=4, assignments=[[2], [1]]),
        settings,
        Random(1),
    )
    assert manual == {2: (2,), 3: (1,)}


def test_a_cordoned_broker_gets_no_replicas_unless_it_is_named() -> None:
    where = context(1, 2)
    settings = ControllerSettings(cordoned=lambda: {1})
    (made,) = plan(NewTopic(name="a", num_partitions=4), where=where, settings=settings)
    assert isinstance(made, TopicPlan)
    assert set(made.assignment.values()) == {(2,)}
    more = plan_partitions(where, NewPartitions(topic="there", count=4), settings, Random(1))
    assert more == {2: (2,), 3: (2,)}
    by_hand = NewTopic(name="b", assignments=[(0, (1,))])
    (named,) = plan(by_hand, where=where, settings=settings)
    assert isinstance(named, TopicPlan)


def test_where_all_brokers_are_cordoned_nothing_is_placed() -> None:
    settings = ControllerSettings(cordoned=lambda: {1})
    reason = "All brokers are currently fenced, or have all their log directories cordoned."
    (answer,) = plan(NewTopic(name="a"), settings=settings)
    assert isinstance(answer, KafkaError)
    assert answer.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert answer.message == f"Unable to replicate the partition 1 time(s): {reason}"
    with pytest.raises(KafkaError) as caught:
        plan_partitions(context(), NewPartitions(topic="there", count=4), settings, Random(1))
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert caught.value.message == reason


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (NewPartitions(topic="nope", count=5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (
            NewPartitions(topic="there", count=2),
            ErrorCode.INVALID_PARTITIONS,
            "Topic already has 2 partition(s).",
        ),
        (
            NewPartitions(topic="there", count=1),
            ErrorCode.INVALID_PARTITIONS,
            "currently has 2 partition(s); 1 would not be an increase",
        ),
        (
            NewPartitions(topic="there", count=5, assignments=[[1]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 3 additional partition(s), but only 1 assignment(s)",
        ),
        (
            NewPartitions(topic="there", count=3, assignments=[[9]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "no such broker is registered",
        ),
        (
            NewPartitions(topic="there", count=2**31 - 1),
            ErrorCode.POLICY_VIOLATION,
            "Excessively large",
        ),
    ],
)
def test_partitions_that_may_not_be_added(
    request_: NewPartitions, code: ErrorCode, message: str
) -> None:
    with pytest.raises(KafkaError) as caught:
        plan_partitions(context(), request_, ControllerSettings(), Random(1))
    assert caught.value.code is code
    assert message in caught.value.message


def test_the_first_live_replica_leads_and_all_live_ones_are_in_sync() -> None:
    where = context(2, 3)
    topic = Topic("a", UUID(int=1), {0: (1, 2, 3), 1: (3, 1, 2), 2: (1,)})
    first, second = initial_states(where, topic, [0, 1, 2])
    assert (first.leader, first.isr, first.replicas) == (2, (2, 3), (1, 2, 3))
    assert (second.leader, second.isr) == (3, (3, 2))
    assert first.leader_epoch == first.partition_epoch == 0
    assert first.controller_epoch == 3
    assert first.is_new
