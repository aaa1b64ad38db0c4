"""Members that an administrator removes from a running group."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client.conftest import NewTopicFactory
from tests.client.test_admin import Member, code_of, unique
from tests.support.target import Target
from tests.support.waiting import eventually

from moldau.client.admin import Admin, MemberToRemove
from moldau.errors import ErrorCode

PARTITIONS = 4


@pytest.fixture
def admin(cluster: Target) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        yield admin


def shares(admin: Admin, group: str) -> dict[str | None, int]:
    """How many partitions each member has, by instance id."""
    found = admin.describe_groups([group])[0].value
    members = found.members if found else ()
    return {member.instance_id: len(member.assignment) for member in members}


def test_what_a_gone_static_member_had_goes_to_the_others(
    admin: Admin, cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic, group = new_topic(partitions=PARTITIONS), unique("static")
    long_session = {"session_timeout_ms": "300000"}
    stays = Member(cluster, group, topic, group_instance_id="stays", **long_session)
    goes = Member(cluster, group, topic, group_instance_id="goes", **long_session)
    try:
        half = PARTITIONS // 2
        eventually(lambda: shares(admin, group) == {"stays": half, "goes": half})
        goes.close()
        assert shares(admin, group) == {"stays": half, "goes": half}  # static members do not leave
        removed = admin.remove_group_members(
            group, [MemberToRemove(instance_id="goes")], reason="its machine is gone"
        )
        assert [code_of(outcome) for outcome in removed] == [None]
        eventually(lambda: shares(admin, group) == {"stays": PARTITIONS})
        again = admin.remove_group_members(group, [MemberToRemove(instance_id="goes")])
        assert [code_of(outcome) for outcome in again] == [ErrorCode.UNKNOWN_MEMBER_ID]
    finally:
        goes.close()
        stays.close()


def test_a_member_that_lives_comes_back_as_another(
    admin: Admin, cluster: Target, new_topic: NewTopicFactory
) -> None:
    topic, group = new_topic(partitions=PARTITIONS), unique("dynamic")
    member = Member(cluster, group, topic, heartbeat_interval_ms="100")
    try:

        def member_ids() -> list[str]:
            found = admin.describe_groups([group])[0].value
            return [one.member_id for one in found.members if one.assignment] if found else []

        eventually(lambda: len(member_ids()) == 1)
        (first,) = member_ids()
        wanted = [MemberToRemove(member_id=first), MemberToRemove(member_id="nobody")]
        removed = admin.remove_group_members(group, wanted)
        assert [code_of(outcome) for outcome in removed] == [None, ErrorCode.UNKNOWN_MEMBER_ID]
        eventually(lambda: len(member_ids()) == 1 and first not in member_ids())
    finally:
        member.close()
