"""How a batch becomes visible exactly once. No IO: what is done to the cluster is handed in.

Tasks leave transactions open. The driver takes the ledger, which fences off whoever had it, and
reads its last decision:

- an earlier batch, or none: it checks that every transaction is open and has time left, writes the
  decision, and commits. From the decision on, the batch can only be completed.
- this batch: it was decided before a crash, and Spark has run it once more. The decided
  transactions are committed (again), the new ones are dropped.
- a later batch: the checkpoint was put back; that is for the user to judge.

Committing is repeatable and a commit never undoes an abort, so that every step can be repeated by
anyone who has read the decision. Only timeouts can break a decision. If they took all of its
transactions, nothing is visible and the new ones are decided instead. If they took some, the query
stops, or, where the user vouches that batches are repeated to the letter, the new transactions of
just these partitions are decided.

When all transactions of a decision are committed, no other of this batch or an earlier one can
ever be decided. Only then are the leftovers of failed and speculative attempts aborted; before,
they might be another driver's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import Final, Protocol

from moldau.spark.exactly_once.decision import Decision, QueryName, TaskTransaction
from moldau.spark.exactly_once.errors import (
    CheckpointResetError,
    LostDecisionsError,
    LostTransactionError,
    ReplannedBatchError,
    TimeoutNearError,
    UndecidableError,
)


class Fate(Enum):
    """What became of a transaction that was to be committed."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """By a timeout, or by somebody who does not know of the decision; for good."""
    UNKNOWN = "unknown"
    """The cluster has forgotten the transactional id."""


class Ledger(Protocol):
    """The decisions of one query."""

    @property
    def name(self) -> str:
        """Of the topic."""

    async def take(self) -> Decision | None:
        """Fence off whoever had it; the last decision. Nobody else's can follow it after this."""

    async def peek(self) -> Decision | None:
        """The last decision, without taking the ledger; there may be a later one already."""

    async def write(self, decision: Decision, *, within: float) -> None:
        """Durably; raises if somebody else has taken the ledger, or after ``within`` seconds."""


class Transactions(Protocol):
    """The transactions of a cluster."""

    async def seconds_left(self, wanted: Sequence[TaskTransaction]) -> list[float | None]:
        """The time until each times out; None for one that is not open any more."""

    async def commit(self, wanted: Sequence[TaskTransaction]) -> list[Fate]:
        """Commit those that are open; what has become of each."""

    async def abort(self, wanted: Sequence[TaskTransaction]) -> None:
        """Abort those that are open."""

    async def open_ids(self, begin: str) -> list[str]:
        """The transactional ids that begin so and have open transactions."""

    async def committed_ids(self, begin: str) -> list[str]:
        """The transactional ids that begin so and whose last transactions were committed."""

    async def abort_ids(self, ids: Collection[str]) -> None:
        """Abort what is open under these ids."""


_LEDGER_SECONDS: Final = 60.0
"""For a decision that nothing waits for."""


class BatchCommitter:
    """The driver's side, for one query."""

    def __init__(
        self,
        query: QueryName,
        ledger: Ledger,
        transactions: Transactions,
        *,
        margin: float,
        replay_lost: bool = False,
    ) -> None:
        """``margin``: seconds that must be left when a batch is decided.

        ``replay_lost``: the user vouches that a repeated batch has the same rows in the same
        partitions.
        """
        self._query = query
        self._ledger = ledger
        self._transactions = transactions
        self._margin = margin
        self._replay_lost = replay_lost
        self._has_checked = False

    async def commit(self, batch: int, new: Sequence[TaskTransaction], plan: str = "") -> None:
        """Make a batch visible, unless it is already; returns when all of it is.

        ``plan`` names its input: it is the same whenever the batch is repeated.
        """
        last = await self._ledger.take()
        if last is not None and last.batch > batch:
            raise CheckpointResetError(batch, last.batch)
        if last is not None and last.batch == batch:
            if plan and last.plan and plan != last.plan:
                raise ReplannedBatchError(batch)
            await self._repeat(last, new)
        else:
            await self._check_decisions(batch)
            # Without a row too: or an older driver, whose rows were others, could decide later.
            await self._decide(Decision(batch, tuple(new), plan), new)

    async def abort(self, batch: int, new: Sequence[TaskTransaction]) -> None:
        """Drop what tasks have written, but not what is decided.

        Spark calls this after a failed commit too, with the very same transactions. If somebody
        else has decided the batch, the ledger is theirs and stays so.
        """
        last = await self._ledger.peek()
        if last is None or last.batch < batch or len(_without(new, last.transactions)) < len(new):
            last = await self._ledger.take()
        decided = last.transactions if last is not None and last.batch == batch else ()
        await self._transactions.commit(decided)
        await self._transactions.abort(_without(new, decided))

    async def resume(self, batch: int) -> None:
        """Commit what an earlier run has decided of this batch, before time is lost with repeating
        it. Anyone may do this at any time, and need not: ``commit`` does it as well.
        """
        last = await self._ledger.peek()
        if last is not None and last.batch == batch:
            await self._transactions.commit(last.transactions)

    async def _decide(self, decision: Decision, new: Sequence[TaskTransaction]) -> None:
        """``new`` are those of its transactions that no decision has had yet."""
        within = await self._check_time(decision.batch, new)
        await self._ledger.write(decision, within=within)
        fates = await self._transactions.commit(decision.transactions)
        lost = _having(Fate.ABORTED, decision, fates)
        _refuse_unknown(decision, fates)
        if lost and len(lost) == len(decision.transactions):
            raise TimeoutNearError(decision.batch, "its transactions timed out as it was committed")
        if lost:
            raise LostTransactionError(decision.batch, lost, len(decision.transactions))
        await self.sweep(decision.batch)

    async def _repeat(self, last: Decision, new: Sequence[TaskTransaction]) -> None:
        fates = await self._transactions.commit(last.transactions)
        _refuse_unknown(last, fates)
        lost = _having(Fate.ABORTED, last, fates)
        if not lost:
            await self._transactions.abort(_without(new, last.transactions))
            await self.sweep(last.batch)
        elif len(lost) == len(last.transactions):
            # Nothing of the batch is visible or will be: what was decided counts no longer.
            await self._decide(Decision(last.batch, tuple(new), last.plan), new)
        else:
            visible = _having(Fate.COMMITTED, last, fates)
            instead = self._replacements(last, lost, new)
            await self._decide(Decision(last.batch, (*visible, *instead), last.plan), instead)
            await self._transactions.abort(_without(new, instead))

    def _replacements(
        self, last: Decision, lost: Sequence[TaskTransaction], new: Sequence[TaskTransaction]
    ) -> list[TaskTransaction]:
        if not self._replay_lost:
            raise LostTransactionError(last.batch, lost, len(last.transactions))
        by_partition = {one.partition: one for one in new}
        found = [by_partition.get(one.partition) for one in lost]
        instead = [one for one in found if one is not None]
        if [one.records for one in instead] != [one.records for one in lost]:
            why = " The repeated batch has other rows there, so that they cannot be replaced."
            raise LostTransactionError(last.batch, lost, len(last.transactions), why)
        return instead

    async def _check_decisions(self, batch: int) -> None:
        """A batch that is written though no decision says so: decisions were lost.

        Once is enough: from then on, the last decision is known without reading it.
        """
        if self._has_checked:
            return
        committed = await self._transactions.committed_ids(f"{self._query.key}.{batch}.")
        if committed:
            last = await self._ledger.peek()
            if last is None or last.batch < batch:
                raise LostDecisionsError(batch, self._ledger.name, committed)
            # Somebody else has decided it since; what follows is refused.
        self._has_checked = True

    async def _check_time(self, batch: int, new: Sequence[TaskTransaction]) -> float:
        """The seconds in which the decision must be written."""
        left = await self._transactions.seconds_left(new)
        if any(seconds is None for seconds in left):
            raise TimeoutNearError(batch, "a transaction timed out before the batch was complete")
        shortest = min((seconds for seconds in left if seconds is not None), default=None)
        if shortest is None:
            return _LEDGER_SECONDS
        if shortest < self._margin:
            raise TimeoutNearError(
                batch,
                f"a transaction times out in {shortest:.1f} s, and exactlyOnce.margin wants "
                f"{self._margin:g} s for committing",
            )
        return min(shortest - self._margin / 2, _LEDGER_SECONDS)

    async def sweep(self, batch: int) -> None:
        """Abort what failed and speculative attempts left; readers wait for open transactions.

        For a batch that is committed, at any time.
        """
        leftovers = []
        for name in await self._transactions.open_ids(f"{self._query.key}."):
            found = self._query.batch_of(name)
            if found is not None and found <= batch:
                leftovers.append(name)
        await self._transactions.abort_ids(leftovers)


def _without(
    some: Sequence[TaskTransaction], others: Sequence[TaskTransaction]
) -> list[TaskTransaction]:
    ids = {one.id for one in others}
    return [one for one in some if one.id not in ids]


def _having(fate: Fate, decision: Decision, fates: Sequence[Fate]) -> list[TaskTransaction]:
    pairs = zip(decision.transactions, fates, strict=True)
    return [one for one, found in pairs if found is fate]


def _refuse_unknown(decision: Decision, fates: Sequence[Fate]) -> None:
    unknown = _having(Fate.UNKNOWN, decision, fates)
    if unknown:
        raise UndecidableError(decision.batch, unknown)
