"""Groups that change between the classic and the consumer protocol while they have members."""

from moldau.groups.migration.classic_members import ClassicMembers
from moldau.groups.migration.downgrade import Downgrader
from moldau.groups.migration.upgrade import upgrade

__all__ = ["ClassicMembers", "Downgrader", "upgrade"]
