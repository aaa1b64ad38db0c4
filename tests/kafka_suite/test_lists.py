"""The lists of Kafka's tests, and what is said about them."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest
from tests.kafka_suite import classify, figures, selection
from tests.kafka_suite.classify import lists_of, read_kinds, read_rules, read_unproved
from tests.kafka_suite.expectations import Gap, judge, read_gaps
from tests.kafka_suite.harness import Result, parse_results, read_results, write_results
from tests.kafka_suite.published import names_in_older_harness
from tests.kafka_suite.selection import Selection, list_names, method_of, read_list


@pytest.mark.parametrize("name", list_names())
def test_a_list_is_sorted_and_described(name: str) -> None:
    tests = read_list(name)
    assert tests == sorted(set(tests))
    assert name in read_kinds()


@pytest.mark.parametrize("name", ["kraft", "internals", "scala-kraft", "scala-internals"])
def test_what_moldau_does_not_mean_to_serve_has_a_reason(name: str) -> None:
    rules = read_rules()
    unexplained = [test for test in read_list(name) if not any(r.holds_for(test) for r in rules)]
    assert unexplained == []


def test_no_test_of_the_older_harness_is_forgotten() -> None:
    listed = {
        method_of(test)
        for name in list_names()
        if name.startswith(figures.OLDER)
        for test in read_list(name)
    }
    assert names_in_older_harness() == sorted(listed)


def test_what_is_unproved_is_in_a_list() -> None:
    known = {test for name in list_names() for test in read_list(name)}
    for pattern in read_unproved().patterns:
        assert fnmatch.filter(known, pattern), pattern


def test_gaps_are_of_tests_in_lists() -> None:
    known = {test for name in list_names() for test in read_list(name)}
    tests = [test for gap in read_gaps() for test in gap.tests]
    assert set(tests) <= known
    assert len(tests) == len(set(tests))


def test_a_selection_takes_full_names_from_lists_and_patterns_by_hand() -> None:
    listed = Selection(tests=frozenset({"a.B#c[x]", "a.D#e"}))
    assert "a.B#c[x]" in listed
    assert "a.B#c" not in listed
    assert listed.classes() == ["a.B", "a.D"]
    assert listed.methods("a.B") == ["c"]
    by_hand = Selection.of(["a.B", "a.D#e"])
    assert "a.B#c[x]" in by_hand
    assert "a.D#e~2" in by_hand
    assert "a.D#f" not in by_hand
    assert by_hand.methods("a.B") == ()


def test_a_failure_is_known_or_new_and_a_pass_may_be_one_too_many() -> None:
    gap = Gap(1, "quotas", "not served", ("a#quota", "a#closed"))
    results = [
        Result("a#good", "pass"),
        Result("a#quota", "fail"),
        Result("a#closed", "pass"),
        Result("a#bad", "fail"),
        Result("a#elsewhere", "needs-cluster"),
    ]
    verdict = judge(results, [gap])
    assert [result.test for result in verdict.passed] == ["a#good", "a#closed"]
    assert [result.test for result, _ in verdict.known] == ["a#quota"]
    assert [result.test for result, _ in verdict.closed] == ["a#closed"]
    assert [result.test for result in verdict.failed] == ["a#bad", "a#elsewhere"]
    assert not verdict.as_expected
    depends = Gap(2, "speed", "a busy machine", ("a#timed",), sometimes=True)
    for outcome in ("pass", "fail"):
        assert judge([Result("a#timed", outcome)], [depends]).as_expected


def test_a_test_that_began_and_never_ended_has_failed() -> None:
    rows = [
        ("a#b", "started", "0", ""),
        ("a#b", "pass", "1500", ""),
        ("a#b", "started", "0", ""),
        ("a#b~2", "fail", "1", "no"),
        ("a#c", "started", "0", ""),
    ]
    lines = "".join("\t".join(row) + "\n" for row in rows)
    assert parse_results(lines, "cut off") == [
        Result("a#b", "pass", 1.5),
        Result("a#b~2", "fail", 0.001, "no"),
        Result("a#c", "fail", message="cut off"),
    ]


def test_results_are_kept_as_they_were(tmp_path: Path) -> None:
    results = [Result("a#b", "pass", 1.5), Result("a#c[x]", "fail", 0.001, "no:\tnothing")]
    write_results(tmp_path / "results.tsv", results)
    assert list(read_results(tmp_path / "results.tsv").values()) == results


def test_a_gap_may_be_all_that_a_list_needs() -> None:
    gap_of = {test: gap.title for gap in read_gaps() for test in gap.tests}
    assert {gap_of[test] for test in read_list("transactions")} == {"transactions"}


@pytest.mark.parametrize(
    ("test", "outcome", "lists"),
    [
        ("kafka.server.A#b", "pass", {"core"}),
        ("org.apache.kafka.streams.A#b", "fail", {"streams"}),
        ("kafka.server.A#b", "no-broker", set()),
        ("kafka.server.A#b", "fold-pass", {"cluster", "folded"}),
        ("kafka.server.A#bTransaction", "needs-cluster", {"cluster", "transactions"}),
        ("kafka.server.MetadataQuorumCommandTest#b", "fail", {"kraft"}),
        ("kafka.server.A#b", "needs-internals", {"internals"}),
    ],
)
def test_what_a_test_wanted_sorts_it(test: str, outcome: str, lists: set[str]) -> None:
    assert lists_of(Result(test, outcome), read_rules()) == lists


def test_classes_that_did_not_run_stay_in_their_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (selection, classify):
        monkeypatch.setattr(module, "LISTS", tmp_path)
    (tmp_path / "core.txt").write_text("a.Other#x\na.Moved#x\na.Moved#gone\n")
    kafka = {test: Result(test, "pass") for test in ("a.Moved#x", "a.New#x")}
    moldau = {test: Result(test, "needs-cluster") for test in ("a.Moved#x", "a.New#x", "a.New#no")}
    classify.write_lists(kafka, moldau)
    assert read_list("core") == ["a.Other#x"]
    assert read_list("cluster") == ["a.Moved#x", "a.New#x"]


def test_a_figure_says_how_much_of_a_list_it_is_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "FIGURES", tmp_path / "figures.json")
    tests = read_list("kraft")
    results = [Result(tests[0], "pass"), Result(tests[1], "fail")]
    figures.record(results, ["kraft"], "moldau", "2026-01-01")
    assert figures.figure("kraft", "moldau") == figures.Figure(1, "2026-01-01", ran=2)
    results += [Result(test, "pass") for test in tests[2:]]
    figures.record(results, ["kraft"], "moldau", "2026-01-02")
    assert figures.figure("kraft", "moldau") == figures.Figure(len(tests) - 1, "2026-01-02")


def test_the_pages_say_what_was_measured() -> None:
    for path, text in ((figures.PAGE, figures.section()), (figures.README, figures.readme_line())):
        assert text in path.read_text(), "run: make kafka-suite ARGS=--record, or write_pages()"
