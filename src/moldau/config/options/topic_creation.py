"""Options: how topics come to be, and go."""

from __future__ import annotations

from moldau.config.declare import boolean, integer, optional_class
from moldau.config.option import Options


class TopicCreationOptions(Options):
    """What happens when topics are created and deleted. Defaults for topic settings are in
    [Log](#log).
    """

    title = "Topics"

    num_partitions = integer(
        1, "How many partitions a topic gets when its creator does not say.", at_least=1
    )
    default_replication_factor = integer(
        1, "How many replicas a partition gets when its creator does not say."
    )
    auto_create_topics_enable = boolean(
        True,
        "Whether a topic is created when a client asks for its metadata and allows it. Turn it "
        "off where a mistyped topic name should be an error.",
    )
    delete_topic_enable = boolean(
        True, "Whether topics can be deleted; otherwise DeleteTopics is refused."
    )
    max_request_partition_size_limit = integer(
        2000, "How many partitions one DescribeTopicPartitions answer holds at most.", at_least=1
    )
    create_topic_policy_class_name = optional_class(
        "A Java class that approves new topics. Java classes cannot be loaded; a value gives a "
        "warning.",
        inert=True,
    )
    alter_config_policy_class_name = optional_class(
        "A Java class that approves config changes. Java classes cannot be loaded; a value gives "
        "a warning.",
        inert=True,
    )
