"""Which sinks share a query, where its stream ends, and how that outlives changes of the file."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from moldau.spark.pipeline.checkpoint import KnownQuery, format_queries, parse_queries
from moldau.spark.pipeline.layout import LayoutError, Query, lay_out
from moldau.spark.pipeline.queries import Flow, mode_of, read_twice, share
from moldau.spark.pipeline.spec import (
    ConsoleSink,
    OutputMode,
    Pipeline,
    QuarantineStep,
    Sink,
    SqlStep,
    Step,
    TopicSink,
    TopicSource,
    WindowStep,
)

MINUTE = 60_000


def sql(name: str, *inputs: str) -> Step:
    return SqlStep(name, "", inputs)


def window(name: str, source: str, late: int | None = MINUTE) -> Step:
    return WindowStep(name, (source,), "timestamp", MINUTE, None, late, (), {})


def sink(name: str, mode: OutputMode = "append", *, of: str | None = None) -> ConsoleSink:
    return ConsoleSink(name, of or name, output_mode=mode)


def pipeline(steps: Collection[Step], *sinks: Sink, sources: str = "s") -> Pipeline:
    return Pipeline(
        "p",
        "p.toml",
        checkpoint="c",
        sources=tuple(TopicSource(name, {}) for name in sources),
        steps=tuple(steps),
        sinks=sinks,
    )


def flow_of(found: Pipeline, *streamed: str) -> Flow:
    windows = [step.name for step in found.steps if isinstance(step, WindowStep)]
    return Flow(found, {*windows, *streamed})


def groups(found: Pipeline, *streamed: str) -> list[list[str]]:
    flow = flow_of(found, *streamed)
    return [[one.name for one in group] for group in share(flow, found.sinks)]


def test_the_stream_ends_where_sinks_part() -> None:
    """Steps that one way only has are computed in the stream, the others from its batches."""
    steps = [sql("clean", "s"), sql("a", "clean"), sql("b", "clean"), sql("b2", "b")]
    found = pipeline(steps, sink("a"), sink("b2"), sink("b3", of="b2"))
    plan = flow_of(found).plan(found.sinks)
    assert plan.frontier == ("clean",)
    assert plan.computed == ("a", "b", "b2")
    assert plan.reused == {"b2"}
    assert plan.spread == frozenset()


def test_one_sink_is_streamed_to_its_end() -> None:
    found = pipeline([sql("clean", "s"), sql("a", "clean")], sink("a"))
    plan = flow_of(found).plan(found.sinks)
    assert (plan.frontier, plan.computed, plan.spread) == (("a",), (), frozenset())


def test_rows_and_windows_over_them_are_read_once() -> None:
    steps = [sql("clean", "s"), window("w", "clean"), sql("top", "w"), sql("raw", "clean")]
    found = pipeline(steps, sink("raw"), sink("top"), sink("w"))
    plan = flow_of(found).plan(found.sinks)
    assert plan.frontier == ("w", "raw")
    assert plan.spread == {"clean"}
    assert plan.computed == ("top",)


def test_rows_that_are_put_aside_are_read_with_the_others() -> None:
    """Only the stream knows when that is, but they hold nobody up."""
    steps = [sql("clean", "s"), window("w", "clean"), QuarantineStep("quarantine", ("clean",))]
    found = pipeline(steps, sink("quarantine"), sink("w", "update"))
    assert groups(found, "quarantine") == [["quarantine", "w"]]
    flow = flow_of(found, "quarantine")
    plan = flow.plan(found.sinks)
    assert plan.frontier == ("w", "quarantine")
    assert plan.spread == {"clean"}
    assert mode_of(flow, found.sinks) == "update"


def test_what_keeps_state_is_not_shuffled_to_be_shared() -> None:
    """Spark reuses no shuffle above state; what is below it is still read once."""
    steps = [sql("once", "s"), window("w", "once")]
    found = pipeline(steps, sink("once"), sink("w"))
    plan = flow_of(found, "once").plan(found.sinks)
    assert plan.frontier == ("once", "w")
    assert plan.spread == {"s"}


def test_rows_that_ask_where_they_are_read_are_not_shuffled_before() -> None:
    """Such a step reads the source by itself."""
    steps = [sql("clean", "s"), sql("named", "clean"), window("w", "clean")]
    found = pipeline(steps, sink("clean"), sink("named"), sink("w"))
    flow = Flow(found, {"named", "w"}, {"named"})
    plan = flow.plan(found.sinks)
    assert (plan.frontier, plan.computed) == (("clean", "named", "w"), ())
    assert plan.spread == frozenset()
    assert Flow(found, {"named", "w"}).plan(found.sinks).spread == {"clean"}


def test_rows_are_put_aside_from_a_batch() -> None:
    """What keeps state before it does so once."""
    aside = QuarantineStep("quarantine", ("s", "once"))
    found = pipeline([sql("once", "s"), aside], sink("once"), sink("quarantine"))
    plan = flow_of(found, "once").plan(found.sinks)
    assert (plan.frontier, plan.computed) == (("s", "once"), ("quarantine",))
    assert plan.judged == {"s", "once"}
    assert plan.puts_aside
    assert plan.spread == {"s"}
    # A checkpoint from before goes on as it was begun.
    plan = flow_of(found, "once").plan(found.sinks, ("once", "quarantine"))
    assert (plan.computed, plan.judged, plan.puts_aside) == ((), frozenset(), False)


def test_rows_that_are_put_aside_alone_are_streamed() -> None:
    aside = QuarantineStep("quarantine", ("s", "a"))
    found = pipeline([sql("a", "s"), aside], sink("quarantine"))
    plan = flow_of(found).plan(found.sinks)
    assert (plan.frontier, plan.computed, plan.judged) == (("quarantine",), (), frozenset())


def test_two_streams_meet_in_the_stream() -> None:
    found = pipeline(
        [sql("both", "s", "t"), sql("a", "both")], sink("both"), sink("a"), sources="st"
    )
    plan = flow_of(found).plan(found.sinks)
    assert (plan.frontier, plan.computed) == (("both",), ("a",))


def test_frames_that_are_no_streams_are_nobodys_frontier() -> None:
    still = replace(TopicSource("t", {}), streaming=False)
    found = pipeline([sql("joined", "s", "t"), sql("static", "t")], sink("s"), sink("joined"))
    found = replace(found, sources=(*found.sources, still), sinks=(*found.sinks, sink("static")))
    flow = flow_of(found)
    assert [flow.is_stream(one) for one in found.sinks] == [True, True, False]
    plan = flow.plan(found.sinks[:2])
    assert (plan.frontier, plan.computed) == (("s",), ("joined",))


def test_every_plan_gives_every_sink_its_rows() -> None:
    """Of random graphs: nothing is computed of what is not there, and no state out of a stream."""
    rng = random.Random(20)
    for _ in range(500):
        names = ["s", "t"]
        steps: list[Step] = []
        for number in range(rng.randrange(1, 8)):
            name = f"x{number}"
            inputs = rng.sample(names, rng.choice([1, 1, 1, 2]))
            steps.append(sql(name, *inputs) if rng.random() < 0.7 else window(name, inputs[0]))
            names.append(name)
        sinks = [sink(f"out{n}", of=rng.choice(names)) for n in range(rng.randrange(1, 5))]
        found = pipeline(steps, *sinks, sources="st")
        flow = flow_of(found)
        for group in share(flow, found.sinks):
            plan = flow.plan(group)
            there = set(plan.frontier)
            for name in plan.computed:
                assert len(flow.inputs[name]) == 1
                assert there.issuperset(flow.inputs[name])
                assert not isinstance(flow.steps[name], WindowStep)
                there.add(name)
            assert there.issuperset(one.input for one in group)
            readers = Counter(
                source
                for name in {*plan.frontier, *plan.spread}
                for source in _read_by(flow, name, plan.spread)
            )
            assert set(readers.values()) <= {1}
            names = [one.name for one in group]
            assert names == [one.name for one in found.sinks if one.name in names]
        everybody = [one.name for group in share(flow, found.sinks) for one in group]
        assert sorted(everybody) == sorted(one.name for one in found.sinks)


def _read_by(flow: Flow, name: str, spread: Collection[str]) -> set[str]:
    """The sources that a frame reads itself, and not by a shuffle that others read, too."""
    if name in flow.sources:
        return {name}
    below = [one for one in flow.inputs[name] if one not in spread]
    return set().union(*(_read_by(flow, one, spread) for one in below))


def test_output_modes_and_watermarks_part_queries() -> None:
    steps = [window("w", "s"), window("late", "s", 5 * MINUTE), window("w2", "s")]
    assert groups(pipeline(steps, sink("s"), sink("w"), sink("w2"))) == [["s", "w", "w2"]]
    assert groups(pipeline(steps, sink("s"), sink("w", "update"))) == [["s", "w"]]
    assert groups(pipeline(steps, sink("s"), sink("w", "complete"))) == [["s"], ["w"]]
    assert groups(pipeline(steps, sink("w"), sink("w2", "update"))) == [["w"], ["w2"]]
    assert groups(pipeline(steps, sink("w", "update"), sink("w2", "update"))) == [["w"], ["w2"]]
    assert groups(pipeline(steps, sink("late"), sink("w"))) == [["late"], ["w"]]
    assert groups(pipeline(steps, sink("s"), sink("late"), sink("w"))) == [["s", "late"], ["w"]]


def test_sinks_of_other_sources_are_left_alone() -> None:
    steps = [sql("both", "s", "t")]
    assert groups(pipeline(steps, sink("s"), sink("t"), sources="st")) == [["s"], ["t"]]
    found = pipeline(steps, sink("s"), sink("both"), sources="st")
    assert groups(found, "both") == [["s", "both"]]


def test_nobody_waits_for_a_sink_with_a_rate() -> None:
    slow = TopicSink("slow", "s", {}, rate=5)
    assert groups(pipeline([], sink("a", of="s"), slow, sink("b", of="s"))) == [
        ["a", "b"],
        ["slow"],
    ]


def test_a_query_has_the_mode_of_its_windows() -> None:
    found = pipeline([window("w", "s")], sink("s"), sink("w", "update"))
    (query,), _ = lay_out(found, flow_of(found), {}, lambda _: False)
    assert (query.output_mode, query.folder) == ("update", "s+w")


def test_what_is_no_stream_is_read_once_too() -> None:
    steps = [sql("clean", "s"), sql("a", "clean"), sql("b", "clean"), sql("unused", "a")]
    found = pipeline(steps, sink("a"), sink("b"), sink("b2", of="b"))
    assert read_twice(found, found.sinks) == {"clean", "b"}


def run(
    found: Pipeline, known: Mapping[str, KnownQuery], *begun: str
) -> tuple[list[Query], Mapping[str, KnownQuery]]:
    queries, after = lay_out(found, flow_of(found), known, begun.__contains__)
    assert parse_queries(format_queries(after)) == after
    return queries, after


STEPS = [sql("a", "s"), sql("b", "s"), window("w", "s")]


def folders(queries: list[Query]) -> dict[str, list[str]]:
    return {query.folder: [one.name for one in query.sinks] for query in queries}


def test_what_was_begun_together_goes_on_together() -> None:
    found = pipeline(STEPS, sink("a"), sink("b"), sink("w"))
    queries, known = run(found, {})
    assert folders(queries) == {"a+b+w": ["a", "b", "w"]}
    assert known == {"a+b+w": KnownQuery(("a", "b", "w"), ("s", "w"))}
    # A crash before the first batch: nothing is begun yet.
    assert run(found, known) == (queries, known)
    assert run(found, known, "a+b+w")[1] == known
    # The order of a file's steps is nothing that state depends on.
    turned = pipeline([STEPS[2], STEPS[1], STEPS[0]], sink("w"), sink("a"), sink("b"))
    (query,), _ = run(turned, known, "a+b+w")
    assert query.plan.frontier == ("s", "w")


def test_what_was_begun_apart_stays_apart() -> None:
    found = pipeline(STEPS, sink("a"), sink("b"), sink("w"))
    queries, known = run(found, {}, "a", "w")
    assert folders(queries) == {"a": ["a"], "b": ["b"], "w": ["w"]}
    assert known == {}
    assert not any(query.shared for query in queries)


def test_a_new_sink_begins_with_a_query_of_its_own() -> None:
    _, known = run(pipeline(STEPS, sink("a"), sink("b")), {})
    found = pipeline(STEPS, sink("a"), sink("b"), sink("w"), sink("a2", of="a"))
    queries, known = run(found, known, "a+b")
    assert folders(queries) == {"a+b": ["a", "b"], "w+a2": ["w", "a2"]}
    assert folders(run(found, known, "a+b", "w+a2")[0]) == folders(queries)


def test_a_sink_that_is_taken_out_does_not_come_back_unnoticed() -> None:
    found = pipeline(STEPS, sink("a"), sink("b"), sink("w"))
    _, known = run(found, {})
    less = replace(found, sinks=(found.sinks[0],))
    (query,), known = run(less, known, "a+b+w")
    # The window's state is kept, though nobody reads it.
    assert (query.plan.frontier, query.shared) == (("s", "w"), True)
    # As long as it has not gone on, nobody has missed anything.
    assert folders(run(found, known, "a+b+w")[0]) == {"a+b+w": ["a", "b", "w"]}
    assert query.without == KnownQuery(("a",), ("s", "w"), ("b", "w"))
    known = {query.folder: query.without}
    with pytest.raises(LayoutError, match=r"sink b was taken out .* give the sink another name"):
        run(found, known, "a+b+w")
    renamed = replace(less, sinks=(found.sinks[0], sink("b2", of="b")))
    assert folders(run(renamed, known, "a+b+w")[0]) == {"a+b+w": ["a"], "b2": ["b2"]}


def test_a_checkpoint_that_does_not_fit_is_refused() -> None:
    found = pipeline(STEPS, sink("a"), sink("b"), sink("w"))
    _, known = run(found, {})
    with pytest.raises(LayoutError, match=r'queries = "separate" comes too late: .* "c-2"'):
        run(replace(found, separate=True), known, "a+b+w")
    assert len(run(replace(found, separate=True), known)[0]) == 3
    other = replace(found, sinks=(found.sinks[0], found.sinks[1], sink("w", "complete")))
    with pytest.raises(LayoutError, match=r"streams s, w; the file was changed"):
        run(other, known, "a+b+w")
    with pytest.raises(LayoutError, match="the file was changed"):
        run(pipeline([window("b", "s"), STEPS[0]], sink("a"), sink("b")), known, "a+b+w")


def test_a_step_that_the_checkpoint_needs_is_missed() -> None:
    _, known = run(pipeline(STEPS, sink("a"), sink("w")), {})
    left = pipeline([step for step in STEPS if step.name != "w"], sink("a"))
    with pytest.raises(LayoutError, match="the file was changed"):
        run(left, known, "a+w")


def test_a_damaged_list_of_queries_is_not_passed_over() -> None:
    for text in ("", "[]", '{"a+b": {"sinks": ["a"]}}'):
        with pytest.raises(ValueError, match=r"queries\.json of the checkpoint is damaged"):
            parse_queries(text)
