"""Classic groups: members divide the work among themselves, the coordinator keeps them together."""

from moldau.groups.classic.deadlines import ClassicDeadline, DeadlineKind
from moldau.groups.classic.description import GroupDescription, GroupListing, MemberDescription
from moldau.groups.classic.group import ClassicGroup
from moldau.groups.classic.groups import ClassicGroups
from moldau.groups.classic.member import ClassicMember
from moldau.groups.classic.states import ClassicGroupState

__all__ = [
    "ClassicDeadline",
    "ClassicGroup",
    "ClassicGroupState",
    "ClassicGroups",
    "ClassicMember",
    "DeadlineKind",
    "GroupDescription",
    "GroupListing",
    "MemberDescription",
]
