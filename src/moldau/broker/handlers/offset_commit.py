"""OffsetCommit (key 8, versions 2-10): remember how far a group has read.

Behaviour: each partition succeeds or fails alone; topics and partitions that do not exist are
refused here, member and generation are checked by the group. The answer comes when the offsets are
stored on all in-sync replicas. Version 10 names topics by id; the id is stored whichever way the
topic was named. A retention time, which versions 2 to 4 may give, is kept.
Known deviations: none.
"""

from __future__ import annotations

from moldau.broker.offset_commits import commit_existing, commit_failed
from moldau.broker.request import Request
from moldau.coordinators import Answer
from moldau.errors import KafkaError
from moldau.wire.offset_shapes import OffsetCommitRequest, OffsetCommitResponse


def handle(request: Request[OffsetCommitRequest]) -> Answer:
    def commit(wanted: OffsetCommitRequest) -> Answer:
        return request.broker.groups.submit(
            wanted.group_id,
            lambda shard, token, now_ms: shard.offset_commit(
                wanted, token, now_ms, request.version
            ),
            lambda error: commit_failed(wanted.topics, error),
        )

    return commit_existing(request.broker, request.body, commit)


def error_answer(request: Request[OffsetCommitRequest], error: KafkaError) -> OffsetCommitResponse:
    return commit_failed(request.body.topics, error)
