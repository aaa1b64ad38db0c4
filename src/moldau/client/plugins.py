"""Settings that name code: a class, an instance, a function, or where to import one from."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from moldau.config.option import invalid_value


def load_plugin(value: Any, setting: str) -> Any:
    """The object that a setting stands for; a class is called without arguments.

    Text is ``package.module:Name`` or ``package.module.Name``.
    """
    plugin = _import(value, setting) if isinstance(value, str) else value
    if not isinstance(plugin, type):
        return plugin
    try:
        return plugin()
    except TypeError as error:
        reason = f"cannot be made without arguments ({error}); give an instance instead"
        raise invalid_value(setting, value, reason) from error


def _import(path: str, setting: str) -> Any:
    module, colon, name = path.partition(":")
    if not colon:
        module, _, name = path.rpartition(".")
    if not module or not name:
        raise invalid_value(
            setting,
            path,
            "there is nothing of this name here; code of your own is package.module:Name, or the "
            "object itself",
        )
    try:
        plugin = import_module(module)
        for part in name.split("."):
            plugin = getattr(plugin, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise invalid_value(setting, path, str(error)) from error
    return plugin
