from __future__ import annotations

import asyncio
import sys

import pytest
import uvloop

from moldau.machine.real.loop import run


async def running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_uvloop_is_used_where_it_is_installed() -> None:
    assert isinstance(run(running_loop()), uvloop.Loop)


def test_asyncio_is_used_where_uvloop_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert not isinstance(run(running_loop()), uvloop.Loop)
