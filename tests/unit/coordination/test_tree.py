"""The tree against a model of it: what commits, what is taken back, what is replayed."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.coordination.errors import CoordinationError
from moldau.coordination.journal import decode_snapshot, encode_snapshot
from moldau.coordination.store import Check, Create, Delete, Op, SetData
from moldau.coordination.tree import Committed, Tree, Txn

PATHS = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/deep"])
VERSIONS = st.sampled_from([-1, -1, 0, 1])
OPS: st.SearchStrategy[Op] = st.one_of(
    st.builds(Create, PATHS, st.binary(max_size=3), st.booleans(), st.booleans()),
    st.builds(SetData, PATHS, st.binary(max_size=3), VERSIONS),
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)
MULTIS = st.lists(st.lists(OPS, min_size=1, max_size=4), max_size=12)


def image(tree: Tree) -> tuple[int, bytes, dict[str, list[str]], dict[int, list[str]]]:
    """All of a tree, indexes included, in a comparable form."""
    nodes = sorted(tree.nodes.values(), key=lambda node: node.path)
    return (
        tree.zxid,
        msgspec.msgpack.encode(nodes),
        {path: tree.children(path) for path in tree.nodes},
        {session: tree.ephemerals_of(session) for session in (1, 2)},
    )


def run(tree: Tree, multis: list[list[Op]]) -> list[Committed]:
    done = []
    for number, ops in enumerate(multis):
        before = image(tree)
        try:
            done.append(tree.commit(ops, 1 + number % 2, 1000 + number))
        except CoordinationError:
            assert image(tree) == before, "a refused transaction left a trace"
    return done


@given(MULTIS)
@settings(max_examples=100, deadline=None)
def test_replaying_the_journal_rebuilds_the_tree_exactly(multis: list[list[Op]]) -> None:
    tree = Tree()
    txns = [done.txn for done in run(tree, multis) if done.txn is not None]
    raw = msgspec.msgpack.encode(txns)
    rebuilt = Tree()
    for txn in msgspec.msgpack.decode(raw, type=list[Txn]):
        rebuilt.replay(txn)
    assert image(rebuilt) == image(tree)


@given(MULTIS, MULTIS)
@settings(max_examples=100, deadline=None)
def test_taking_transactions_back_restores_the_tree_exactly(
    kept: list[list[Op]], refused: list[list[Op]]
) -> None:
    tree = Tree()
    run(tree, kept)
    before = image(tree)
    tree.rollback(run(tree, refused))
    assert image(tree) == before


@given(MULTIS)
@settings(max_examples=100, deadline=None)
def test_a_snapshot_holds_the_tree_exactly(multis: list[list[Op]]) -> None:
    tree = Tree()
    run(tree, multis)
    assert image(decode_snapshot(encode_snapshot(tree))) == image(tree)


@given(MULTIS)
@settings(max_examples=50, deadline=None)
def test_a_restart_leaves_no_ephemeral_node_and_replays_the_same(multis: list[list[Op]]) -> None:
    tree = Tree()
    txns = [done.txn for done in run(tree, multis) if done.txn is not None]
    txns.append(tree.restart(5000))
    assert not tree.has_sessions
    assert all(node.owner == 0 for node in tree.nodes.values())
    rebuilt = Tree()
    for txn in txns:
        rebuilt.replay(txn)
    assert image(rebuilt) == image(tree)
