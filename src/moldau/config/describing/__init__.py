"""What DescribeConfigs answers: each setting with its value, its source and its synonyms.

The rules are those of Apache Kafka 4.3, quirks included. The one worth knowing: synonyms are listed
from the first that carries the described name itself. So a ``retention.ms`` that comes from
``log.retention.hours`` is described without synonyms and as a default, until ``log.retention.ms``
is set somewhere too. CreateTopics names the true source; so does ``describe_new_topic``.
"""
