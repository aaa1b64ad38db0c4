"""What callers give is refused with a sentence, where Python would take it for something else."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.client import arguments
from moldau.client.admin.types import Outcome
from moldau.client.consumer.types import places
from moldau.errors import ErrorCode, KafkaError
from moldau.model import OffsetAndMetadata, TopicPartition

P = TopicPartition("t", 0)


def test_names() -> None:
    assert arguments.names(iter(["a", "b"]), "delete_topics()") == ["a", "b"]
    with pytest.raises(TypeError, match=r"^delete_topics\(\) takes a list of names; this is one"):
        arguments.names("abc", "delete_topics()")
    with pytest.raises(TypeError, match=r"^delete_topics\(\) takes names; b'a' is none$"):
        arguments.names([b"a"], "delete_topics()")


@pytest.mark.parametrize("wrong", ["t", ("t",), ("t", "0"), (0, "t"), None, 5])
def test_what_is_no_partition(wrong: Any) -> None:
    with pytest.raises(TypeError, match="a TopicPartition is needed, not"):
        arguments.partition(wrong)


def test_partitions() -> None:
    assert arguments.partitions([("t", 0)], "assign()") == [P]
    for wrong in ("topic", P):
        with pytest.raises(TypeError, match=r"assign\(\) takes a list of TopicPartitions, not"):
            arguments.partitions(wrong, "assign()")


def test_offsets_by_partition() -> None:
    assert places({P: 5}, "commit()") == {P: OffsetAndMetadata(5)}
    with pytest.raises(TypeError, match=r"commit\(\) takes a mapping from TopicPartitions"):
        places([P], "commit()")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"an int or an OffsetAndMetadata, not 1\.5"):
        places({P: 1.5}, "commit()")  # type: ignore[dict-item]


def test_an_outcome_is_a_value_or_an_error() -> None:
    error = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert Outcome("t", "what was asked for", error).value is None
    assert Outcome("t", 5).get() == 5
