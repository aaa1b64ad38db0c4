"""RE2's syntax, as far as names of topics can tell a difference, parsed into a small tree.

Clients write patterns for RE2, which Kafka uses: no look-around and no back-references, but POSIX
classes, ``\\Q…\\E`` and flags in the middle. What RE2 refuses is refused here.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MAX_REPEAT = 1000
"""RE2's limit for counted repetitions, nested ones multiplied."""


class PatternSyntaxError(ValueError):
    """The pattern is not one; the message says why."""


Test = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Char:
    """One character that passes a test."""

    test: Test


@dataclass(frozen=True, slots=True)
class Assertion:
    """No character, but something about the place: one of ``^ $ b B``."""

    kind: str


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    item: Node
    least: int
    most: int | None


Node = Char | Assertion | Sequence | Choice | Repeat

_DIGITS: Final = frozenset("0123456789")
_WORD: Final = frozenset("0123456789_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_SPACE: Final = frozenset("\t\n\f\r ")
_UPPER: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER: Final = frozenset("abcdefghijklmnopqrstuvwxyz")
_GRAPH: Final = frozenset(map(chr, range(0x21, 0x7F)))
_PERL: Final = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_POSIX: Final = {
    "alnum": _DIGITS | _UPPER | _LOWER,
    "alpha": _UPPER | _LOWER,
    "ascii": frozenset(map(chr, range(0x80))),
    "blank": frozenset("\t "),
    "cntrl": frozenset(map(chr, [*range(0x20), 0x7F])),
    "digit": _DIGITS,
    "graph": _GRAPH,
    "lower": _LOWER,
    "print": _GRAPH | {" "},
    "punct": _GRAPH - _DIGITS - _UPPER - _LOWER,
    "space": _SPACE | {"\v"},
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": frozenset("0123456789ABCDEFabcdef"),
}
_CONTROL: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CATEGORIES: Final = frozenset(
    category
    for major, minors in {
        "C": "cfos",
        "L": "lmotu",
        "M": "cen",
        "N": "dlo",
        "P": "cdefios",
        "S": "ckmo",
        "Z": "lps",
    }.items()
    for category in (major, *(major + minor for minor in minors))
)


def parse(text: str) -> Node:
    """The tree of a pattern. Raises ``PatternSyntaxError``."""
    parser = _Parser(text)
    node = parser.choice()
    if not parser.at_end:
        raise PatternSyntaxError("unexpected ): " + text)
    _check_repeats(node)
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._fold = False
        self._dot_all = False

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._text)

    def choice(self) -> Node:
        """Alternatives up to the end of the group. Flags hold until then, too."""
        fold, dot_all = self._fold, self._dot_all
        options = [self._sequence()]
        while self._accept("|"):
            options.append(self._sequence())
        self._fold, self._dot_all = fold, dot_all
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Node:
        items: list[Node] = []
        while not self.at_end and self._peek() not in "|)":
            if self._accept(r"\Q"):
                items += self._quoted()
                continue
            item = self._item()
            if item is not None:
                items.append(self._repeated(item))
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _item(self) -> Node | None:
        """One thing that can be repeated; None for flags, which are nothing by themselves."""
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return Char(self._class())
        if char == ".":
            return Char((lambda _: True) if self._dot_all else (lambda c: c != "\n"))
        if char in "^$":
            return Assertion(char)
        if char == "\\":
            return self._escape()
        if char in "*+?":
            raise PatternSyntaxError(f"missing argument to repetition operator: {char}")
        return Char(self._literal(char))

    def _repeated(self, item: Node) -> Node:
        count = self._count()
        if count is None:
            return item
        self._accept("?")  # whether it prefers few or many makes no difference to the whole
        if self._count() is not None:
            raise PatternSyntaxError(f"invalid nested repetition operator in {self._text}")
        return Repeat(item, *count)

    def _count(self) -> tuple[int, int | None] | None:
        for operator, count in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._accept(operator):
                return count
        if self.at_end or self._peek() != "{":
            return None
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at + 1 : max(end, self._at)].partition(",")
        if not _is_number(least) or (most and not _is_number(most)):
            return None  # a brace that counts nothing is a character like others
        self._at = end + 1
        if not comma:
            most = least
        limits = int(least), int(most) if most else None
        if max(limits[0], limits[1] or 0) > MAX_REPEAT or (
            limits[1] is not None and limits[1] < limits[0]
        ):
            raise PatternSyntaxError(f"invalid repeat count in {self._text}")
        return limits

    def _group(self) -> Node | None:
        fold, dot_all = self._fold, self._dot_all
        if self._accept("?P<") or (
            not self._text.startswith(("?<=", "?<!"), self._at) and self._accept("?<")
        ):
            end = self._text.find(">", self._at)
            name = self._text[self._at : max(end, self._at)]
            if not name or not all(char in _WORD for char in name):
                raise PatternSyntaxError(f"invalid named capture in {self._text}")
            self._at = end + 1
        elif self._accept("?") and self._flags() == ")":
            return None
        node = self.choice()
        self._fold, self._dot_all = fold, dot_all
        if not self._accept(")"):
            raise PatternSyntaxError(f"missing closing ) in {self._text}")
        return node

    def _flags(self) -> str:
        """Flags up to ``:`` (for a group) or ``)`` (for the rest of the group they are in)."""
        on = True
        while not self.at_end:
            char = self._next()
            if char in ":)":
                return char
            if char == "-" and on:
                on = False
            elif char == "i":
                self._fold = on
            elif char == "s":
                self._dot_all = on
            elif char not in "mU":
                break
        raise PatternSyntaxError(f"invalid or unsupported Perl syntax in {self._text}")

    def _quoted(self) -> list[Node]:
        end = self._text.find(r"\E", self._at)
        stop = len(self._text) if end < 0 else end
        quoted = self._text[self._at : stop]
        self._at = stop if end < 0 else end + 2
        items: list[Node] = [Char(self._literal(char)) for char in quoted]
        if items:
            items[-1] = self._repeated(items[-1])
        return items

    def _escape(self) -> Node:
        if self.at_end:
            raise PatternSyntaxError("trailing backslash at end of expression")
        char = self._peek()
        if char in "AzbB":
            self._at += 1
            return Assertion({"A": "^", "z": "$"}.get(char, char))
        test = self._class_escape()
        return Char(test if test is not None else self._literal(self._escaped()))

    def _class_escape(self) -> Test | None:
        """``\\d`` and its like; None when it is something else."""
        char = self._peek()
        if char.lower() in _PERL:
            self._at += 1
            return _member(_PERL[char.lower()], negated=char.isupper())
        if char not in "pP":
            return None
        self._at += 1
        name = self._next()
        if name == "{":
            end = self._text.find("}", self._at)
            name = self._text[self._at : max(end, self._at)]
            self._at = end + 1
        negated = (char == "P") != name.startswith("^")
        name = name.removeprefix("^")
        if name not in _CATEGORIES:
            raise PatternSyntaxError(f"invalid character class range: \\{char}{{{name}}}")
        return lambda c: unicodedata.category(c).startswith(name) != negated

    def _escaped(self) -> str:
        """The character that an escape stands for."""
        char = self._next()
        if char in _CONTROL:
            return _CONTROL[char]
        if char == "x":
            return self._hexadecimal()
        if char == "0" or (char in "1234567" and self._text[self._at : self._at + 1].isdigit()):
            digits = char
            while len(digits) < 3 and not self.at_end and self._peek() in "01234567":
                digits += self._next()
            return chr(int(digits, 8))
        if char.isascii() and char.isalnum():
            raise PatternSyntaxError(f"invalid escape sequence: \\{char}")
        return char

    def _hexadecimal(self) -> str:
        if self._accept("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at : max(end, self._at)]
            self._at = end + 1
        else:
            digits = self._text[self._at : self._at + 2]
            self._at += 2
        try:
            if not digits.isalnum():
                raise ValueError(digits)
            return chr(int(digits, 16))
        except (ValueError, OverflowError):
            raise PatternSyntaxError(f"invalid escape sequence: \\x{digits}") from None

    def _class(self) -> Test:
        negated = self._accept("^")
        tests: list[Test] = []
        first = True
        while first or not self._text.startswith("]", self._at):
            tests.append(self._class_item())
            first = False
        self._at += 1
        return lambda c: any(test(c) for test in tests) != negated

    def _class_item(self) -> Test:
        if self.at_end:
            raise PatternSyntaxError(f"missing closing ] in {self._text}")
        if self._text.startswith("[:", self._at) and (end := self._text.find(":]", self._at)) > 0:
            name = self._text[self._at + 2 : end]
            if name.removeprefix("^") not in _POSIX:
                raise PatternSyntaxError(f"invalid character class range: [:{name}:]")
            self._at = end + 2
            return _member(_POSIX[name.removeprefix("^")], negated=name.startswith("^"))
        if self._text.startswith("\\", self._at) and self._at + 1 < len(self._text):
            self._at += 1
            test = self._class_escape()
            if test is not None:
                return test
            self._at -= 1
        low = self._class_char()
        if self._text.startswith("-", self._at) and self._text[self._at + 1 : self._at + 2] != "]":
            self._at += 1
            high = self._class_char()
            if high < low:
                raise PatternSyntaxError(f"invalid character class range: {low}-{high}")
            return _range(low, high, fold=self._fold)
        return self._literal(low)

    def _class_char(self) -> str:
        char = self._next()
        return self._escaped() if char == "\\" else char

    def _literal(self, char: str) -> Test:
        if self._fold:
            folded = {char, char.lower(), char.upper()}
            return lambda c: c in folded
        return lambda c: c == char

    def _peek(self) -> str:
        return self._text[self._at]

    def _next(self) -> str:
        if self.at_end:
            raise PatternSyntaxError(f"unexpected end of {self._text}")
        self._at += 1
        return self._text[self._at - 1]

    def _accept(self, token: str) -> bool:
        if self._text.startswith(token, self._at):
            self._at += len(token)
            return True
        return False


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _member(chars: frozenset[str], *, negated: bool) -> Test:
    return lambda c: (c in chars) != negated


def _range(low: str, high: str, *, fold: bool) -> Test:
    if fold:
        return lambda c: low <= c <= high or low <= c.lower() <= high or low <= c.upper() <= high
    return lambda c: low <= c <= high


def _check_repeats(node: Node, outer: int = 1) -> None:
    if isinstance(node, Repeat):
        outer *= max(node.least, node.most or 0, 1)
        if outer > MAX_REPEAT:
            raise PatternSyntaxError("invalid repeat count: too many repetitions inside each other")
        _check_repeats(node.item, outer)
    elif isinstance(node, Sequence):
        for item in node.items:
            _check_repeats(item, outer)
    elif isinstance(node, Choice):
        for option in node.options:
            _check_repeats(option, outer)
