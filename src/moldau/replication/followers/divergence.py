"""Where a follower has to cut its log to agree with its leader (KIP-101, KIP-279, KIP-595).

A follower says with each fetch how far its log reaches and which epoch wrote the end of it. A
leader that does not have that offset of that epoch answers with the largest epoch of its own up to
the follower's, and where that epoch ends in its log. What both have of the same epoch below the
smaller of its two ends is the same; all else the follower cuts off. Where it does not know the
leader's epoch at all it cuts back to the last older one and asks again, which costs a round trip
for each epoch that the two do not share.

The high watermark plays no part in it: a follower learns late what is committed, and to cut there
would throw away what nobody else may have by then.
"""

from __future__ import annotations

from moldau.log.partition.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, LeaderEpochs


def offset_to_cut_at(
    epochs: LeaderEpochs, log_end_offset: int, leader_epoch: int, leader_end_offset: int
) -> int:
    """Returns where the log is to end: a follower's with these epochs, whose leader says that
    ``leader_epoch`` is the largest one up to the follower's last, and ends at
    ``leader_end_offset``.

    It may be the end that the log has: then it is the last epoch that has to go, of which there is
    nothing in the log (``PartitionLog.truncate_to`` sees to that).
    """
    if leader_end_offset == UNDEFINED_OFFSET:
        return log_end_offset  # the leader knows nothing that would tell
    if leader_epoch == UNDEFINED_EPOCH:
        return min(leader_end_offset, log_end_offset)
    epoch, end_offset = epochs.end_offset_for(leader_epoch, log_end_offset)
    if end_offset == UNDEFINED_OFFSET:
        # All of ours is older than that epoch, or was written before there were any.
        return min(leader_end_offset, log_end_offset)
    if epoch < leader_epoch:
        return min(end_offset, log_end_offset)
    return min(end_offset, leader_end_offset, log_end_offset)
