"""Tables on terminals that are too narrow for them."""

from __future__ import annotations

import pytest

from moldau.cli.tables import Layout, cell_text, choose_layout

HEADINGS = ["GROUP", "LAG", "NOTE", "HOST", "ERROR"]
SENTENCE = "the warehouse did not answer within 30 seconds"
ROWS = [
    ["warehouse-notifications", "0", "-", "/127.0.0.1", SENTENCE],
    ["billing", "12000", "", "/127.0.0.1", "-"],
]
NATURAL = 23 + 5 + 4 + 10 + len(SENTENCE) + 2 * 5 + 1
WITHOUT_NOTE = NATURAL - 4 - 2
SHORTEST = len(SENTENCE) - 24


@pytest.mark.parametrize(
    ("width", "layout"),
    [
        (NATURAL, Layout((0, 1, 2, 3, 4), None)),
        (NATURAL - 1, Layout((0, 1, 2, 3, 4), 4)),
        (NATURAL - SHORTEST, Layout((0, 1, 2, 3, 4), 4)),
        (NATURAL - SHORTEST - 1, Layout((0, 1, 3, 4), 4)),
        (WITHOUT_NOTE - SHORTEST, Layout((0, 1, 3, 4), 4)),
        (WITHOUT_NOTE - SHORTEST - 1, Layout((0, 1, 4), 4, ("HOST",))),
        (WITHOUT_NOTE - SHORTEST - 12, Layout((0, 1, 4), 4, ("HOST",))),
        (WITHOUT_NOTE - SHORTEST - 13, Layout((0, 1, 2, 3, 4), None, blocks=True)),
    ],
)
def test_what_can_go_goes_first(width: int, layout: Layout) -> None:
    assert choose_layout(HEADINGS, ROWS, width, ("HOST",)) == layout


def test_names_are_never_broken() -> None:
    rows = [["a" * 40, "1"], ["b", "1"]]
    assert choose_layout(["TOPIC", "PARTITIONS"], rows, 40).blocks
    assert choose_layout(["TOPIC", "PARTITIONS"], rows, 55) == Layout((0, 1), None)


def test_wide_characters_count_twice() -> None:
    assert choose_layout(["A"], [["\u6c34" * 10]], 22).blocks
    assert not choose_layout(["A"], [["\u6c34" * 10]], 23).blocks


def test_cells() -> None:
    assert [cell_text(cell) for cell in (None, [], [1, 2], "x", 0)] == ["-", "-", "1, 2", "x", "0"]
