"""The records of a poll, one by one: positions stand behind the last record that was given.

Whoever leaves a loop over a consumer has seen the records up to there and no more. So only those
count for commits, and the next poll gives the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moldau.client.consumer.partition_state import PartitionState
from moldau.client.consumer.position import Position
from moldau.client.consumer.records import ConsumerRecords
from moldau.model import TopicPartition
from moldau.records.consumer_record import ConsumerRecord


class Iteration:
    def __init__(
        self, polled: ConsumerRecords, states: Mapping[TopicPartition, PartitionState]
    ) -> None:
        self._polled = polled
        self._unfinished: dict[TopicPartition, tuple[PartitionState, int]] = {}
        """The partitions with records left, in the version of their states that these are of."""
        for partition, records in polled.items():
            state = states.get(partition)
            if state is not None and state.taken_to is not None and records:
                version = state.version
                self._unfinished[partition] = (state, version)
                state.iterated = (version, Position(records[0].offset))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        for partition, records in self._polled.items():
            if partition not in self._unfinished:
                yield from records
                continue
            state, version = self._unfinished[partition]
            last = records[-1]
            for record in records:
                if state.version != version:
                    break  # somebody has moved it: what is left belongs to the old place
                after = Position(record.offset + 1, record.leader_epoch)
                state.iterated = None if record is last else (version, after)
                yield record
            del self._unfinished[partition]

    def take_back(self, record: ConsumerRecord) -> None:
        """The record given last was not dealt with."""
        partition = TopicPartition(record.topic, record.partition)
        if partition in self._unfinished:
            state, version = self._unfinished[partition]
            state.iterated = (version, Position(record.offset))

    def unread(self, states: Mapping[TopicPartition, PartitionState]) -> list[PartitionState]:
        """The partitions of ours with records that were not given."""
        return [
            state
            for partition, (state, version) in self._unfinished.items()
            if states.get(partition) is state and state.iterated is not None
            if state.version == version
        ]
