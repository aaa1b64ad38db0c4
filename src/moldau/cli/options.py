"""Options that several commands share, and how a command group is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from moldau.cli.command_config import ClusterTyper, complete_names
from moldau.cli.serve import DEFAULT_BOOTSTRAP as DEFAULT_BOOTSTRAP

if TYPE_CHECKING:
    from moldau.client.client import Client

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="MOLDAU_BOOTSTRAP",
        metavar="HOST:PORT",
        help="A broker of the cluster, or several separated by commas.",
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

Timeout = Annotated[
    float,
    typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to wait for the cluster."),
]


def complete_topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topic names for the shell."""

    async def names(client: Client) -> list[str]:
        return [topic.name for topic in await client.admin.list_topics()]

    return complete_names(ctx, incomplete, names)


def command_app() -> typer.Typer:
    """A Typer that holds one command."""
    return ClusterTyper(add_completion=False, context_settings=_SETTINGS)


def group_app(help_text: str) -> typer.Typer:
    """A Typer that holds several commands under one name."""
    app = ClusterTyper(
        add_completion=False, no_args_is_help=True, help=help_text, context_settings=_SETTINGS
    )
    # Without a callback, typer turns a group of one command into that command.
    app.callback()(_nothing)
    return app


def _nothing() -> None: ...


_SETTINGS = {"help_option_names": ["-h", "--help"]}
