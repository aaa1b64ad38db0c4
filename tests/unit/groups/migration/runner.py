"""A shard in virtual time, with its log, that answers requests as a broker does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from kio.schema.consumer_group_describe.v1.response import ConsumerGroupDescribeResponse
from kio.schema.delete_groups.v2.response import DeleteGroupsResponse
from kio.schema.describe_groups.v6.response import DescribeGroupsResponse
from kio.schema.list_groups.v5.response import ListGroupsResponse
from tests.unit.groups.stored_state import Shadow

from moldau.errors import ErrorCode
from moldau.groups.classic import ClassicGroup
from moldau.groups.client_info import ClientInfo
from moldau.groups.consumer.group import ConsumerGroup
from moldau.groups.settings import GroupSettings
from moldau.groups.shard import GroupShard
from moldau.groups.topics import FixedTopics
from moldau.outcome import Outcome, Record
from moldau.wire.api import ApiKey
from moldau.wire.make import make
from moldau.wire.messages import decode_response, encode_response
from moldau.wire.offset_shapes import OffsetFetchResponse

CLIENT = ClientInfo("app", "/127.0.0.1")
SIZE_BYTES = 4
_NAMESPACE = UUID(int=7)


def _uuids() -> Iterator[UUID]:
    number = 0
    while True:
        number += 1
        yield uuid5(_NAMESPACE, str(number))


class ShardRunner:
    """Appends, replays and answers at once; ``fail_with`` makes appends fail.

    After every append, and every one that failed, the log alone gives what the shard takes for
    stored.
    """

    def __init__(self, settings: GroupSettings, topics: Mapping[str, int]) -> None:
        self.settings = settings
        self.topics = FixedTopics(topics)
        self.log: list[Record] = []
        self.answers: dict[object, Any] = {}
        self.now_ms = 1_000_000
        self.fail_with: ErrorCode | None = None
        self._ids = _uuids()
        self._tokens = 0
        self._shadow = Shadow(GroupShard(settings, self.topics, self._ids.__next__))
        self.shard = self.loaded(self.log)

    def loaded(self, log: list[Record]) -> GroupShard:
        """A shard that has read this log, and nothing else."""
        shard = GroupShard(self.settings, self.topics, self._ids.__next__)
        for record in log:
            shard.replay(*record)
        shard.on_loaded(self.now_ms)
        return shard

    def restart(self) -> None:
        """The coordinator restarts from its log; requests that waited are lost."""
        self.shard = self.loaded(self.log)

    def compacted(self) -> list[Record]:
        """What is left of the log when the cleaner has been there, tombstones too."""
        last = {record.key: number for number, record in enumerate(self.log)}
        return [
            record
            for number, record in enumerate(self.log)
            if last[record.key] == number and record.value is not None
        ]

    def classic(self, group_id: str) -> ClassicGroup | None:
        return self.shard._classic.get(group_id)

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        return self.shard._consumer.get(group_id)

    def new_token(self) -> int:
        self._tokens += 1
        return self._tokens

    def act(self, outcome: Outcome) -> None:
        if outcome.records and self.fail_with is not None:
            replies = outcome.failed(self.fail_with)
        else:
            for record in outcome.records:
                self.log.append(record)
                self.shard.replay(*record)
            replies = outcome.replies
        if outcome.records:
            self._shadow.check(self.shard, self.log)
        for token, response in replies:
            assert token not in self.answers, "a request is answered once"
            self.answers[token] = response

    def advance(self, by_ms: int) -> None:
        end = self.now_ms + by_ms
        while (due := self.shard.next_deadline()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            self.act(self.shard.on_time(self.now_ms))
        self.now_ms = end

    def send(self, api: ApiKey, version: int, request: Any) -> int:
        """Hand a request in; its answer is in ``answers`` sooner or later."""
        token = self.new_token()
        shard, now_ms = self.shard, self.now_ms
        match api:
            case ApiKey.JOIN_GROUP:
                self.act(shard.join_group(request, token, now_ms, CLIENT, version))
            case ApiKey.SYNC_GROUP:
                self.act(shard.sync_group(request, token, now_ms, version))
            case ApiKey.HEARTBEAT:
                self.act(shard.heartbeat(request, token, now_ms))
            case ApiKey.LEAVE_GROUP:
                self.act(shard.leave_group(request, token, now_ms))
            case ApiKey.CONSUMER_GROUP_HEARTBEAT:
                self.act(shard.consumer_group_heartbeat(request, token, now_ms, CLIENT, version))
            case ApiKey.OFFSET_COMMIT:
                self.act(shard.offset_commit(request, token, now_ms, version))
            case _:
                self._administrate(api, version, request, token)
        return token

    def _administrate(self, api: ApiKey, version: int, request: Any, token: int) -> None:
        shard, parts = self.shard, []
        kind: Any
        match api:
            case ApiKey.LIST_GROUPS:
                groups = tuple(shard.list_groups())
                listed = {"throttle_time": 0, "error_code": ErrorCode.NONE}
                self.answers[token] = make(ListGroupsResponse, groups=groups, **listed)
                return
            case ApiKey.DESCRIBE_GROUPS:
                kind, name = DescribeGroupsResponse, "groups"
                parts = [shard.describe_group(g, "", version) for g in request.groups]
            case ApiKey.CONSUMER_GROUP_DESCRIBE:
                kind, name = ConsumerGroupDescribeResponse, "groups"
                parts = [shard.consumer_group_describe(g, "") for g in request.group_ids]
            case ApiKey.DELETE_GROUPS:
                kind, name = DeleteGroupsResponse, "results"
                parts = [shard.delete_group(g, "", self.now_ms) for g in request.groups_names]
            case _:
                kind, name = OffsetFetchResponse, "groups"
                parts = [shard.offset_fetch(g, "", self.now_ms) for g in request.groups]
        values = tuple(part.replies[0].response for part in parts)
        self.answers[token] = make(kind, throttle_time=0, **{name: values})


@dataclass
class VirtualCall:
    """An answer as its version carries it over the wire."""

    runner: ShardRunner
    api: ApiKey
    version: int
    token: int

    def get(self) -> Any:
        while self.token not in self.runner.answers:
            deadline = self.runner.shard.next_deadline()
            assert deadline is not None, "the answer would never come"
            self.runner.advance(max(deadline - self.runner.now_ms, 0))
        frame = encode_response(self.api, self.version, 1, self.runner.answers[self.token])
        return decode_response(self.api, self.version, frame[SIZE_BYTES:])[1]

    def waits(self, for_ms: int) -> bool:
        self.runner.advance(for_ms)
        return self.token not in self.runner.answers


@dataclass
class VirtualCaller:
    runner: ShardRunner

    def send(self, api: ApiKey, version: int, request: Any) -> VirtualCall:
        return VirtualCall(self.runner, api, version, self.runner.send(api, version, request))

    def sleep(self, ms: int) -> None:
        self.runner.advance(ms)

    def now_ms(self) -> int:
        return self.runner.now_ms
