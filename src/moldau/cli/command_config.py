"""``--command-config``: a file of client settings, for every command that talks to a cluster.

Kafka's tools have the same option. A command says that it talks to a cluster by having a
parameter ``bootstrap``; its ``Typer`` (see ``options.py``) adds the option, and the clients that it
makes ask ``client_config`` for what was in the file.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from moldau.cli.exit_codes import UsageError

if TYPE_CHECKING:
    from moldau.client.client import Client
    from moldau.client.settings import CommonSettings

_HARMLESS: Final = re.compile(r"[\w.:@/+=,-]+")

CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="MOLDAU_CLIENT_CONFIG",
        metavar="FILE",
        help="A properties file with settings of clients, such as security.protocol.",
    ),
]

_CLIENT_ID: Final = "moldau-cli"
_BOOTSTRAP: Final = "bootstrap.servers"

_from_file: ContextVar[Mapping[str, str]] = ContextVar("command config", default={})  # noqa: B039 - never changed


class ClusterTyper(typer.Typer):
    """A Typer whose commands with a ``bootstrap`` take ``--command-config`` too."""

    def command(self, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
        register = super().command(*args, **kwargs)

        def decorate(function: Any) -> Any:
            takes_cluster = "bootstrap" in inspect.signature(function).parameters
            register(_with_option(function) if takes_cluster else function)
            return function

        return decorate


def client_config(kind: type[CommonSettings], own: Mapping[str, object]) -> dict[str, object]:
    """Settings of a client of this kind: those of the file, and over them the command's own.

    A file may be shared with other tools: what is for other kinds of clients is left out.
    """
    from moldau.client.settings import AdminSettings, ConsumerSettings, ProducerSettings

    others = (AdminSettings, ConsumerSettings, ProducerSettings)
    fitting = {
        name: value
        for name, value in _from_file.get().items()
        if name in kind.table or not any(name in other.table for other in others)
    }
    return {"client.id": _CLIENT_ID, **fitting, **own}


def complete_names(
    context: typer.Context, incomplete: str, ask: Callable[[Client], Awaitable[Iterable[str]]]
) -> list[str]:
    """The fitting names that a cluster answers, if it does before a person loses patience.

    Not those with characters that a shell gives a meaning: they would be part of a command line.
    Nothing of the command has run yet: its options are in the context as far as they are typed.
    """
    from moldau.cli.session import with_client

    try:
        file, given = context.params.get("command_config"), context.params["bootstrap"]
        names = with_client(_apply(file, context, given), ask, timeout=1.0)
    except Exception:  # a completion that fails completes nothing
        return []
    return [name for name in names if name.startswith(incomplete) and _HARMLESS.fullmatch(name)]


def _with_option(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function, eval_str=True)
    more = {"command_config": CommandConfig, "command_context": typer.Context}

    @wraps(function)
    def command(
        *, command_config: Path | None, command_context: typer.Context, **given: Any
    ) -> Any:
        given["bootstrap"] = _apply(command_config, command_context, given["bootstrap"])
        return function(**given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [one.replace(kind=keyword) for one in signature.parameters.values()]
    parameters += [
        inspect.Parameter(
            name,
            keyword,
            default=None if name == "command_config" else inspect.Parameter.empty,
            annotation=annotation,
        )
        for name, annotation in more.items()
    ]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {
        **{name: one.annotation for name, one in signature.parameters.items()},
        **more,
    }
    return command


def _apply(file: Path | None, context: typer.Context, bootstrap: str) -> str:
    """Have the settings of the file hold; the brokers, which it may name unless a person does."""
    settings = {} if file is None else _read(file)
    _from_file.set(settings)
    source = context.get_parameter_source("bootstrap")
    by_default = source is not None and source.name == "DEFAULT"
    return settings.get(_BOOTSTRAP, bootstrap) if by_default else bootstrap


def _read(path: Path) -> dict[str, str]:
    from moldau.config.properties import decode_properties, parse_properties

    try:
        return parse_properties(decode_properties(path.read_bytes()))
    except OSError as error:
        raise UsageError(f"--command-config {path}: {error.strerror}") from None
