"""The lines of keys in TOML files."""

from __future__ import annotations

from textwrap import dedent

from moldau.toml_places import line_of, places


def test_places_of_keys() -> None:
    text = dedent('''
        a = "]{" # [x]
        [b.c]
        "d e" = """
        [[no]]
        """
        f = [1, { g = 2 },
             { h = "}" }]
        [[t]]
        [[t]]
        [t.o]
        k.l = 'x'
        i = { m = { n = 1 }, o = [
          2 ] }
    ''')
    found = places(text)
    wanted = {
        ("a",): 2, ("b", "c"): 3, ("b", "c", "d e"): 4, ("b", "c", "f", 1, "g"): 7,
        ("b", "c", "f", 2, "h"): 8, ("t", 0): 9, ("t", 1): 10, ("t", 1, "o", "k", "l"): 12,
        ("t", 1, "o", "i", "m", "n"): 13, ("t", 1, "o", "i", "o", 0): 14,
    }  # fmt: skip
    assert {path: found.get(path) for path in wanted} == wanted
    assert line_of(("t", 1, "o", "nothing", 3), found) == 11
