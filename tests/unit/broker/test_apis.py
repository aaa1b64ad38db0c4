"""The table of APIs against what is served, what handlers have, and what the documentation says."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

import moldau
import moldau.broker.handlers
from moldau.broker.apis import APIS, Codec
from moldau.wire.api import SERVED, ApiKey

PROTOCOL_PAGE = Path(__file__).parents[3] / "docs" / "protocol.md"
NOT_AUTHORIZED = {
    ApiKey.API_VERSIONS,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
}
"""What comes before anybody could have said who they are, and what the owner of a token may do."""


def test_every_api_that_is_served_has_a_row_and_no_other_has() -> None:
    assert APIS.keys() == SERVED.keys()


def test_every_handler_has_one_row() -> None:
    folder = Path(next(iter(moldau.broker.handlers.__path__)))
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert sorted(api.handler for api in APIS.values()) == sorted(modules)


@pytest.mark.parametrize("key", APIS, ids=lambda key: key.name)
def test_a_handler_is_what_its_row_says(key: ApiKey) -> None:
    api, versions = APIS[key], SERVED[key]
    module = import_module(f"moldau.broker.handlers.{api.handler}")
    assert callable(module.handle)
    assert callable(module.error_answer)
    has_codec = hasattr(module, "decode") and hasattr(module, "encode")
    assert has_codec is (api.codec is not Codec.SCHEMA)
    name = "".join(word.capitalize() for word in key.name.split("_"))
    served = f"version {versions.oldest}"
    if versions.oldest != versions.newest:
        served = f"versions {versions.oldest}-{versions.newest}"
    # From the source: a compiled module has no docstring.
    source = Path(moldau.__file__).parent / "broker" / "handlers" / f"{api.handler}.py"
    title = re.sub(r"\s+", " ", ast.get_docstring(ast.parse(source.read_text())) or "")
    assert title.startswith(f"{name} (key {int(key)}, {served}): ")
    assert " Behaviour: " in title
    assert " Known deviations: " in title


def test_every_row_says_why_it_costs_what_it_costs_and_who_may_ask() -> None:
    for key, api in APIS.items():
        assert api.cost.reason, key
        assert bool(api.permissions) is (key not in NOT_AUTHORIZED), key


def test_the_documentation_names_the_codecs() -> None:
    codecs = {}
    for line in PROTOCOL_PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and line[2].isdigit():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            codecs[ApiKey(int(cells[0]))] = cells[4]
    assert codecs == {key: api.codec.value for key, api in APIS.items()}
