"""A conversation with Apache Kafka 4.3.1, recorded; ours must answer the same.

``group.consumer.assignment.interval.ms`` was 0 and the topic ``orders`` had six partitions.
"""

from __future__ import annotations

from typing import Any

from tests.unit.groups.consumer.harness import Harness, partitions

JOIN = {"rebalance_timeout_ms": 60_000, "owned": {}}

# member id, member epoch, other fields; then error code, member epoch, partitions of the answer
CONVERSATION: list[tuple[str, int, dict[str, Any], int, int, list[int] | None]] = [
    ("a", 6, {}, 69, 0, None),
    ("a", -1, {}, 69, 0, None),
    ("a", -2, {"instance_id": "i"}, 69, 0, None),
    ("a", -3, {}, 42, 0, None),
    ("", 0, {**JOIN, "topics": ("orders",)}, 42, 0, None),
    ("a", 0, {"topics": ("orders",), "owned": {}}, 42, 0, None),
    ("a", 0, {"rebalance_timeout_ms": 1, "topics": ("orders",)}, 42, 0, None),
    ("a", 0, {**JOIN}, 42, 0, None),
    ("a", 0, {**JOIN, "topics": ("orders",), "assignor": "x"}, 112, 0, None),
    ("a", 0, {**JOIN, "topics": (), "regex": "("}, 128, 0, None),
    ("a", 0, {**JOIN, "topics": ("orders",)}, 0, 2, [0, 1, 2, 3, 4, 5]),
    ("a", 2, {}, 0, 2, None),
    ("a", 2, {**JOIN, "topics": ("orders",), "owned": {"orders": [0, 1, 2, 3, 4, 5]}},
     0, 2, [0, 1, 2, 3, 4, 5]),
    ("a", 3, {}, 110, 0, None),
    ("a", 0, {**JOIN, "topics": ("orders",)}, 0, 2, [0, 1, 2, 3, 4, 5]),
    ("b", 0, {**JOIN, "topics": ("orders",)}, 0, 3, []),
    ("b", 3, {}, 0, 3, None),
    ("a", 2, {}, 0, 2, [0, 1, 2]),
    ("a", 2, {"owned": {"orders": [0, 1, 2, 3, 4, 5]}}, 0, 2, None),
    ("a", 2, {"owned": {"orders": [0, 1, 2]}}, 0, 3, None),
    ("b", 3, {}, 0, 3, [3, 4, 5]),
    ("b", 2, {}, 110, 0, None),
    ("a", 2, {}, 110, 0, None),
    ("a", 2, {"owned": {"orders": [0, 1, 2]}}, 0, 3, None),
    ("a", 3, {"topics": ()}, 0, 3, []),
    ("a", 3, {"owned": {}}, 0, 4, None),
    ("b", 3, {"owned": {"orders": [3, 4, 5]}}, 0, 4, [0, 1, 2, 3, 4, 5]),
    ("b", 4, {}, 0, 4, None),
    ("s", 0, {**JOIN, "topics": ("orders",), "instance_id": "one"}, 0, 5, []),
    ("b", 4, {"owned": {"orders": [3, 4, 5]}}, 0, 4, [0, 1, 2]),
    ("s", 5, {"instance_id": "one"}, 0, 5, None),
    ("s2", 0, {**JOIN, "topics": ("orders",), "instance_id": "one"}, 111, 0, None),
    ("s2", 5, {"instance_id": "one"}, 82, 0, None),
    ("s", 5, {"instance_id": "two"}, 25, 0, None),
    ("s", -2, {"instance_id": "one"}, 0, -2, None),
    ("s", 5, {"instance_id": "one"}, 110, 0, None),
    ("s2", 0, {**JOIN, "topics": ("orders",), "instance_id": "one"}, 0, 5, []),
    ("s", -1, {"instance_id": "one"}, 82, 0, None),
    ("b", -1, {}, 0, -1, None),
    ("b", 5, {}, 25, 0, None),
    ("s2", 5, {"instance_id": "one"}, 0, 6, [0, 1, 2, 3, 4, 5]),
    ("s2", 6, {"instance_id": "one"}, 0, 6, None),
    ("e", 0, {**JOIN, "topics": ()}, 0, 6, []),
    ("e", 7, {}, 110, 0, None),
    ("e", 8, {}, 110, 0, None),
    ("zz", 0, {**JOIN, "topics": ("missing",)}, 0, 7, []),
    ("zz", 8, {}, 110, 0, None),
    ("zz", 9, {}, 110, 0, None),
    ("a", -1, {}, 0, -1, None),
    ("s2", -1, {"instance_id": "one"}, 0, -1, None),
    ("e", -1, {}, 0, -1, None),
    ("zz", -1, {}, 0, -1, None),
    ("zz", -1, {}, 25, 0, None),
    ("n", 0, {**JOIN, "topics": ("orders",)}, 0, 12, [0, 1, 2, 3, 4, 5]),
]  # fmt: skip


def test_a_recorded_conversation_with_kafka() -> None:
    h = Harness(orders=6)
    orders = h.id("orders")
    for step, (member_id, epoch, fields, code, answered_epoch, assigned) in enumerate(CONVERSATION):
        request = dict(fields)
        if request.get("owned"):
            request["owned"] = {orders: frozenset(request["owned"]["orders"])}
        answer = h.beat(member_id, epoch, **request)
        told = partitions(answer)
        got = None if told is None else sorted(told.get(orders, ()))
        assert (answer.error_code, answer.member_epoch, got) == (code, answered_epoch, assigned), (
            f"step {step}: {member_id} {epoch} {fields}"
        )
        assert answer.member_id == (member_id if code == 0 else None)
