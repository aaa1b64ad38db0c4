"""The records of a poll, one by one: positions stand behind the last record that was given.

Whoever leaves a loop over a consumer has seen the records up to there and no more. So only those
count for commits, and the next poll gives the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moldau.client.consumer.positions import PartitionState, Position
from moldau.client.consumer.records import ConsumerRecords
from moldau.model import TopicPartition
from moldau.records.consumer_record import ConsumerRecord


class Handout:
    def __init__(
        self, found: ConsumerRecords, states: Mapping[TopicPartition, PartitionState]
    ) -> None:
        self._found = found
        self._left: dict[TopicPartition, tuple[PartitionState, int, Position]] = {}
        """Partitions that are not done with: the state, its version, the end of the poll."""
        for partition, records in found.items():
            state = states.get(partition)
            if state is not None and state.position is not None and records:
                self._left[partition] = (state, state.version, state.position)
                state.consumed(Position(records[0].offset))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        for partition, records in self._found.items():
            if partition not in self._left:
                yield from records
                continue
            state, version, end = self._left[partition]
            last = records[-1]
            for record in records:
                if state.version != version:
                    break  # the user has moved it: what is left belongs to the old place
                after = Position(record.offset + 1, record.leader_epoch)
                state.consumed(end if record is last else after)
                yield record
            del self._left[partition]

    def take_back(self, record: ConsumerRecord) -> None:
        """The record given last was not dealt with."""
        left = self._left.get(TopicPartition(record.topic, record.partition))
        if left is not None and left[0].version == left[1]:
            left[0].consumed(Position(record.offset))

    def unread(
        self, states: Mapping[TopicPartition, PartitionState]
    ) -> dict[TopicPartition, Position]:
        """Where to go on in the partitions with records that were not given, if they are ours."""
        return {
            partition: state.position
            for partition, (state, version, end) in self._left.items()
            if states.get(partition) is state
            and state.version == version
            and state.position is not None
            and state.position != end
        }
