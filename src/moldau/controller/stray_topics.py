"""What a store that has lost changes lacks, by what is in the log directories. Pure.

Every partition directory tells its topic's id and its newest leader epoch, and one of each topic's
has a copy of the settings. A directory is made after the store knows its topic, and is renamed,
durably, before the store forgets it; a copy of settings is written after the store has them. So
whatever is in the directories and not in the store was there once, and was lost with the end of its
journal, a snapshot, or all of it, unless somebody put it there by hand:

    settings                those of the copy hold, if it is newer
    leader epochs           raised
    producer ids            go on above all that occur in the logs

and where the store shows that it has lost something, or somebody asks for it (``ADOPT``):

    topic                   adopted with its id; with its settings, or if there is no copy of them
                            with a cleanup.policy that deletes nothing until somebody sets one
    partitions of a topic   added to it
    recreated topic         takes the place of the one that the store still knows
    deletion                marked again, if all directories are on their way out

Everything else, and whatever cannot be decided, is left alone: neither served nor renamed nor
deleted, named in the log, and its name kept from being used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from moldau.controller.adoption import (
    KEEP_EVERYTHING,
    FoundPartition,
    common_id,
    create_topic_nodes,
    some,
    unfit_reason,
)
from moldau.controller.topic_names import CLUSTER_METADATA_TOPIC, collision_key
from moldau.controller.writes import PARTITIONS_PER_BATCH, batched
from moldau.coordination import paths, znodes
from moldau.coordination.store import Create, Delete, Op, SetData
from moldau.coordination.znodes import ProducerIdBlock, StateNode, TopicNode

EPOCHS_AHEAD: Final = 1000
"""Leader epochs that are left out after a loss: clients may know some that no log tells of."""
PRODUCER_IDS_AHEAD: Final = 1_000_000
_BLOCK: Final = 1000
_MOST_VERSIONS: Final = 10_000

AUTO: Final = "auto"
ADOPT: Final = "adopt"
REFUSE: Final = "refuse"
POLICIES: Final = (AUTO, ADOPT, REFUSE)
"""Of topics that the store does not know: adopted after a loss, always, or never."""


_WAYS: Final = (
    "Restart the broker with stray.topics.policy=adopt to have it back, or move the directories "
    "away while it is stopped"
)
_ONE_WAY: Final = "It cannot be adopted; move the directories away while the broker is stopped"


class StoredTopic(NamedTuple):
    """A topic as the store knows it; versions are those of its nodes."""

    node: TopicNode
    version: int
    states: dict[int, tuple[StateNode, int]]
    config: dict[str, str]
    config_version: int
    """-1 if there is no node for it."""


class KeptConfig(NamedTuple):
    """A copy of a topic's settings that was found with its partitions."""

    topic_id: UUID
    version: int
    config: dict[str, str]


@dataclass(slots=True)
class Stored:
    """What of the store is compared."""

    topics: dict[str, StoredTopic] = field(default_factory=dict)
    deleting: Collection[str] = ()
    left_configs: Collection[str] = ()
    """Settings of topics that are not there."""
    producer_ids: ProducerIdBlock | None = None
    has_lost: bool = False
    """The store itself says that changes may be missing."""
    is_new: bool = False
    """There was no store."""
    can_lose_changes: bool = True
    """If not, whatever it does not know is of no topic any more."""


@dataclass(slots=True)
class FoundOnDisk:
    """What is in the log directories."""

    partitions: Sequence[FoundPartition] = ()
    configs: Mapping[str, KeptConfig] = field(default_factory=dict)
    deleted: Collection[tuple[UUID, int]] = ()
    """Topic ids and partitions of directories that were being deleted."""
    next_producer_id: int = 0
    """Above all that occur in the logs."""
    unopened: Collection[tuple[str, int]] = ()
    """Partitions that are there but cannot be opened."""
    complete: bool = True
    """Whether everything in all log directories could be opened."""


@dataclass(slots=True)
class Comparison:
    """What to write, and what people should know."""

    batches: list[list[Op]] = field(default_factory=list)
    news: list[str] = field(default_factory=list)
    """What was missing, a sentence each."""
    adopted: list[str] = field(default_factory=list)
    strays: dict[str, str] = field(default_factory=dict)
    """Topics that are left alone, and why their names are reserved."""
    left_alone: dict[tuple[str, int], str] = field(default_factory=dict)
    """Partitions that must not be served, renamed or deleted, and why."""
    unknown: list[str] = field(default_factory=list)
    """Topics that a store which loses nothing does not know: theirs are nobody's any more."""


def compare(
    stored: Stored,
    found: FoundOnDisk,
    broker: int,
    *,
    policy: str = AUTO,
    known_configs: Mapping[str, Mapping[str, str]] | None = None,
) -> Comparison:
    """``known_configs`` are the settings of topics that always have the same ones."""
    return _Comparing(stored, found, broker, policy, known_configs or {}).run()


class _Comparing:
    def __init__(
        self,
        stored: Stored,
        found: FoundOnDisk,
        broker: int,
        policy: str,
        known_configs: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._stored = stored
        self._found = found
        self._broker = broker
        self._has_lost = stored.has_lost or stored.is_new
        self._insists = policy == ADOPT
        self._adopts = self._insists or (policy == AUTO and self._has_lost)
        self._known_configs = known_configs
        self._by_topic: dict[str, list[FoundPartition]] = {}
        for partition in sorted(found.partitions, key=lambda p: (p.topic, p.partition)):
            if partition.topic != CLUSTER_METADATA_TOPIC:
                self._by_topic.setdefault(partition.topic, []).append(partition)
        self._names = self._names_by_id()
        keys = map(collision_key, {*self._by_topic, *stored.topics})
        self._colliding = {key for key, times in Counter(keys).items() if times > 1}
        self._recreated: list[str] = []
        self._result = Comparison()

    def _names_by_id(self) -> dict[UUID, set[str]]:
        """Returns what goes by each id: a directory that somebody copied has that of another."""
        names: dict[UUID, set[str]] = {}
        for name, topic in self._stored.topics.items():
            if topic.node.topic_id is not None:
                names.setdefault(topic.node.topic_id, set()).add(name)
        for name, there in self._by_topic.items():
            for topic_id in _ids(there):
                names.setdefault(topic_id, set()).add(name)
        return names

    def run(self) -> Comparison:
        stored, result = self._stored, self._result
        for name, there in self._by_topic.items():
            topic = stored.topics.get(name)
            if not stored.can_lose_changes:
                self._report(topic, there)
            elif topic is None:
                self._stray(name, there)
            elif not self._is_same(topic, there):
                self._other_topic(name, there)
            elif name not in stored.deleting:
                self._known(name, topic, there)
        if not stored.can_lose_changes:
            return result
        self._unopened()
        if self._has_lost:
            self._deletions()
        for name in self._recreated:
            self._recreate(name)
        if self._has_lost:
            self._raise_epochs()
        self._producer_ids()
        if stored.has_lost:
            result.batches.append([Delete(paths.SUSPECTED_LOSS)])
        return result

    @staticmethod
    def _is_same(topic: StoredTopic, there: Sequence[FoundPartition]) -> bool:
        """Whether the directories are, as far as they tell, of the topic that the store means."""
        ids = _ids(there)
        return not ids or topic.node.topic_id is None or topic.node.topic_id in ids

    def _report(self, topic: StoredTopic | None, there: Sequence[FoundPartition]) -> None:
        if topic is None or not self._is_same(topic, there):
            if topic is None:
                self._result.unknown.append(there[0].topic)
            self._result.news.append(
                f"{_directories(there)} {'is' if len(there) == 1 else 'are'} of no topic that the "
                "store knows"
            )

    def _leave_alone(self, there: Iterable[FoundPartition], reason: str) -> None:
        for partition in there:
            self._result.left_alone[partition.topic, partition.partition] = reason

    # Topics that the store does not know -------------------------------------------------------

    def _stray(self, name: str, there: Sequence[FoundPartition]) -> None:
        topic_id = self._id_of(name, there)
        obstacle = self._obstacle(name, topic_id, there)
        if self._adopts and topic_id is not None and obstacle is None:
            self._adopt(name, topic_id, there)
        else:
            self._reserve(name, topic_id, there, obstacle)

    def _id_of(self, name: str, there: Sequence[FoundPartition]) -> UUID | None:
        kept = self._found.configs.get(name)
        return common_id(there) or (kept.topic_id if kept is not None else None)

    def _obstacle(
        self, name: str, topic_id: UUID | None, there: Sequence[FoundPartition]
    ) -> str | None:
        """Returns why it would be wrong, or a guess, to make a topic of the directories."""
        if name in self._stored.deleting:
            return "a topic of this name is being deleted"
        if topic_id is None:
            return "they do not tell their topic's id (partition.metadata)"
        if len(_ids(there)) > 1:
            return "they are of more than one topic"
        others = self._names.get(topic_id, set()) - {name}
        if others:
            return (
                f"topic id {znodes.id_to_text(topic_id)} is that of {', '.join(sorted(others))}, "
                "too: one is a copy of the other, or was renamed"
            )
        if collision_key(name) in self._colliding:
            return "the name collides with another"
        numbers = [p.partition for p in there if p.topic_id is not None] or [
            p.partition for p in there
        ]
        unfit = unfit_reason(name, numbers)
        if unfit is None and not self._insists and self._was_being_deleted(topic_id, there):
            return "others of its partitions were deleted, or moved to where they cannot be read"
        return unfit

    def _reserve(
        self,
        name: str,
        topic_id: UUID | None,
        there: Sequence[FoundPartition],
        obstacle: str | None,
    ) -> None:
        of = f"of topic id {znodes.id_to_text(topic_id)}" if topic_id else "without a topic id"
        reason = (
            f"the log directories hold {_directories(there)} {of}, which the coordination store "
            "does not know. " + (_WAYS if obstacle is None else f"{_ONE_WAY}: {obstacle}")
        )
        self._result.strays[name] = reason
        self._leave_alone(there, reason)
        self._result.news.append(f"topic {name} is not in the store, and left alone: {reason}")

    def _unopened(self) -> None:
        result = self._result
        for name in sorted({topic for topic, _ in self._found.unopened}):
            if name not in self._stored.topics and name not in self._by_topic:
                result.strays[name] = (
                    "the log directories hold partitions of a topic of this name that cannot be "
                    "opened, and the coordination store does not know it"
                )
                result.news.append(f"topic {name} is left alone: {result.strays[name]}")

    def _adopt(self, name: str, topic_id: UUID, there: Sequence[FoundPartition]) -> None:
        config, known = self._config_of(name, topic_id)
        self._has_lost = True
        epochs = {p.partition: p.leader_epoch for p in there}
        count = max([p.partition for p in there if p.topic_id is not None] or epochs) + 1
        self._leave_alone(
            [p for p in there if p.partition >= count], "it does not tell its topic's id"
        )
        missing = [number for number in range(count) if number not in epochs]
        node = TopicNode(dict.fromkeys(range(count), (self._broker,)), topic_id)
        states = {
            number: StateNode(
                0, self._broker, epochs.get(number, -1) + EPOCHS_AHEAD, (self._broker,)
            )
            for number in range(count)
        }
        self._result.batches += create_topic_nodes(
            name, node, config, states, config_exists=name in self._stored.left_configs
        )
        self._catch_up(name, config, 0)
        self._result.adopted.append(name)
        gap = f", of which {some(missing)} not there and begin empty" if missing else ""
        self._result.news.append(
            f"topic {name} is not in the store: adopted from the log directories with its id "
            f"{znodes.id_to_text(topic_id)} and {count} partitions{gap}, "
            + (
                f"with its settings ({_shown(config)})"
                if known
                else "without its settings, which are lost. Nothing of it is deleted or compacted "
                "until somebody sets its cleanup.policy: 'moldau config alter topic "
                f"{name} cleanup.policy=delete', or compact"
            )
        )

    def _config_of(self, name: str, topic_id: UUID) -> tuple[dict[str, str], bool]:
        """Returns a topic's settings, and whether they are its own."""
        kept = self._found.configs.get(name)
        if kept is not None and kept.topic_id == topic_id:
            return kept.config, True
        if name in self._known_configs:
            return dict(self._known_configs[name]), True
        return dict(KEEP_EVERYTHING), False

    def _catch_up(self, name: str, config: Mapping[str, str], version: int) -> None:
        """Count the settings' versions on above those of the copies: one that could not be read now
        would be newer than the store's otherwise. Each write of a node adds one.
        """
        kept = self._found.configs.get(name)
        if kept is not None and kept.version >= version:
            op = SetData(paths.topic_config(name), znodes.encode_config(config))
            times = min(kept.version + 1 - version, _MOST_VERSIONS)
            self._result.batches += batched([op] * times, PARTITIONS_PER_BATCH)

    def _was_being_deleted(self, topic_id: UUID, there: Iterable[FoundPartition]) -> bool:
        """What was moved between directories leaves one behind, too, but is there."""
        live = {partition.partition for partition in there}
        return any(
            deleted == topic_id and number not in live for deleted, number in self._found.deleted
        )

    # Topics that it knows ----------------------------------------------------------------------

    def _known(self, name: str, topic: StoredTopic, there: Sequence[FoundPartition]) -> None:
        node, topic_id = topic.node, topic.node.topic_id
        mine = [p for p in there if topic_id is None or p.topic_id in (None, topic_id)]
        self._foreign(name, [p for p in there if p not in mine])
        more = [p for p in mine if p.partition not in node.partitions]
        obstacle = self._obstacle_to_growth(name, node, more)
        if more and self._adopts and obstacle is None:
            self._grow(name, topic, more)
        elif more:
            reason = (
                f"topic {name} has {len(node.partitions)} partitions in the store, and the log "
                f"directories hold {_directories(more)}. "
                + (_WAYS if obstacle is None else f"{_ONE_WAY}: {obstacle}")
            )
            self._leave_alone(more, reason)
            self._result.news.append(f"{reason}. Left alone")
        for partition in mine:
            state = topic.states.get(partition.partition)
            if state is not None and state[0].leader_epoch < partition.leader_epoch:
                self._raise_epoch(name, partition.partition, state, partition.leader_epoch)
        kept = self._found.configs.get(name)
        if (
            kept is not None
            and kept.topic_id == topic_id
            and kept.version > topic.config_version
            and kept.config != topic.config
        ):
            path, data = paths.topic_config(name), znodes.encode_config(kept.config)
            exists = topic.config_version >= 0
            op: Op = SetData(path, data) if exists else Create(path, data)
            self._has_lost = True
            self._result.batches.append([op])
            self._catch_up(name, kept.config, topic.config_version + 1)
            self._result.news.append(
                f"the settings of topic {name} were newer with its partitions than in the store: "
                f"{_shown(kept.config)} holds"
            )

    def _obstacle_to_growth(
        self, name: str, node: TopicNode, more: Sequence[FoundPartition]
    ) -> str | None:
        if any(partition.topic_id is None for partition in more):
            return "they do not all tell their topic's id (partition.metadata)"
        return unfit_reason(name, [*node.partitions, *(p.partition for p in more)])

    def _foreign(self, name: str, there: Sequence[FoundPartition]) -> None:
        """The directories are of another topic of the same name, and nobody knows which counts."""
        if there:
            ids = ", ".join(sorted(map(znodes.id_to_text, _ids(there))))
            reason = (
                f"the log directories hold {_directories(there)} of topic id {ids}, but topic "
                f"{name} has another id in the coordination store"
            )
            self._leave_alone(there, reason)
            self._result.news.append(f"{reason}: left alone, and offline. {_WAYS}")

    def _grow(self, name: str, topic: StoredTopic, more: Sequence[FoundPartition]) -> None:
        node = topic.node
        count = max(p.partition for p in more) + 1
        added = [number for number in range(count) if number not in node.partitions]
        epochs = {p.partition: p.leader_epoch for p in more}
        replicas = (self._broker,)
        grown = msgspec.structs.replace(
            node, partitions=node.partitions | dict.fromkeys(added, replicas)
        )
        self._has_lost = True
        ops: list[Op] = []
        for number in added:
            epoch = epochs.get(number, -1) + EPOCHS_AHEAD
            path = paths.partition(name, number)
            state = znodes.encode_state(StateNode(0, self._broker, epoch, replicas))
            ops += [Create(path), Create(f"{path}/state", state)]
        node_op = SetData(paths.topic(name), znodes.encode_topic(grown), topic.version)
        self._result.batches += [[node_op], *batched(ops, 2 * PARTITIONS_PER_BATCH)]
        self._result.news.append(
            f"topic {name} has {len(node.partitions)} partitions in the store and {count} in the "
            "log directories: adopted"
        )

    def _raise_epoch(
        self, name: str, number: int, state: tuple[StateNode, int], epoch: int
    ) -> None:
        self._has_lost = True
        known, version = state
        raised = msgspec.structs.replace(known, leader_epoch=epoch)
        self._stored.topics[name].states[number] = raised, version
        self._result.news.append(
            f"{name}-{number} has leader epoch {known.leader_epoch} in the store and {epoch} in "
            "its log"
        )

    def _raise_epochs(self) -> None:
        """Clients take no older epoch than they know."""
        ops: list[Op] = []
        for name, topic in self._stored.topics.items():
            if name in self._recreated or name in self._stored.deleting:
                continue
            for number, (state, version) in topic.states.items():
                raised = msgspec.structs.replace(
                    state, leader_epoch=state.leader_epoch + EPOCHS_AHEAD
                )
                path = paths.partition_state(name, number)
                ops.append(SetData(path, znodes.encode_state(raised), version))
        self._result.batches += batched(ops, PARTITIONS_PER_BATCH)

    # Topics that were deleted ------------------------------------------------------------------

    def _deletions(self) -> None:
        """A deletion that was lost is done again: all partitions are on their way out.

        Without a sign of loss they were moved to a disk that is not there now.
        """
        if not self._found.complete:
            return
        for name, topic in self._stored.topics.items():
            topic_id = topic.node.topic_id
            if topic_id is None or name in self._stored.deleting or name in self._by_topic:
                continue
            if all((topic_id, number) in self._found.deleted for number in topic.node.partitions):
                self._result.batches.append([Create(paths.delete_topic(name))])
                self._result.news.append(
                    f"topic {name} is in the store, but its partitions were deleted: it is deleted"
                )

    def _other_topic(self, name: str, there: Sequence[FoundPartition]) -> None:
        """The directories are those of another topic of the same name."""
        obstacle = self._obstacle(name, common_id(there), there)
        if self._adopts and self._found.complete and obstacle is None:
            self._recreated.append(name)
        else:
            self._foreign(name, there)

    def _recreate(self, name: str) -> None:
        """The topic was deleted and made anew: the one of the directories holds."""
        there, topic = self._by_topic[name], self._stored.topics[name]
        topic_id = common_id(there)
        assert topic_id is not None
        ops: list[Op] = []
        for number in topic.states:
            path = paths.partition(name, number)
            ops += [Delete(f"{path}/state"), Delete(path)]
        last: list[Op] = [Delete(paths.partitions(name)), Delete(paths.topic(name))]
        if topic.config_version >= 0:
            last.append(Delete(paths.topic_config(name)))
        self._result.batches += [*batched(ops, 2 * PARTITIONS_PER_BATCH), last]
        self._adopt(name, topic_id, there)

    # Producer ids ------------------------------------------------------------------------------

    def _producer_ids(self) -> None:
        block = self._stored.producer_ids
        known = block.block_end + 1 if block is not None else 0
        wanted = max(known, self._found.next_producer_id)
        if self._has_lost and (wanted or self._by_topic):
            wanted += PRODUCER_IDS_AHEAD
        if wanted > known:
            data = znodes.encode_producer_id_block(
                ProducerIdBlock(self._broker, max(0, wanted - _BLOCK), wanted - 1)
            )
            self._result.batches.append([SetData(paths.PRODUCER_ID_BLOCK, data)])


def _ids(there: Iterable[FoundPartition]) -> set[UUID]:
    return {p.topic_id for p in there if p.topic_id is not None}


def _directories(there: Sequence[FoundPartition]) -> str:
    shown = ", ".join(f"{p.topic}-{p.partition}" for p in there[:5])
    return shown + (f" and {len(there) - 5} more" if len(there) > 5 else "")


def _shown(config: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(config.items())) or "the defaults"
