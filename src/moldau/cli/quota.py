"""``moldau quota``: what users, clients and addresses may use of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.exit_codes import UsageError
from moldau.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Timeout, group_app
from moldau.cli.output import note, print_json, print_table
from moldau.cli.session import DEFAULT_TIMEOUT, with_client

if TYPE_CHECKING:
    from moldau.client.admin import ClientQuota, ClientQuotaEntity
    from moldau.client.client import Client

app = group_app("Show and change quotas of users, clients and IP addresses.")

User = Annotated[str | None, typer.Option("--user", help="A user.")]
ClientId = Annotated[str | None, typer.Option("--client", help="A client id.")]
Ip = Annotated[str | None, typer.Option("--ip", help="An IP address.")]
UserDefaults = Annotated[
    bool, typer.Option("--user-defaults", help="Each user without a quota of its own.")
]
ClientDefaults = Annotated[
    bool, typer.Option("--client-defaults", help="Each client without a quota of its own.")
]
IpDefaults = Annotated[
    bool, typer.Option("--ip-defaults", help="Each address without a quota of its own.")
]

DEFAULT = "<default>"


@app.command()
def describe(
    user: User = None,
    user_defaults: UserDefaults = False,
    client_id: ClientId = None,
    client_defaults: ClientDefaults = False,
    ip: Ip = None,
    ip_defaults: IpDefaults = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show quotas: all, or those that name a user, a client or an address.

    moldau quota describe --user alice
    """
    from moldau.client.admin import ClientQuotaFilter, ClientQuotaFilterComponent, MatchType

    entity = _entity(user, user_defaults, client_id, client_defaults, ip, ip_defaults)
    wanted = ClientQuotaFilter(
        [
            ClientQuotaFilterComponent(
                kind, MatchType.DEFAULT if name is None else MatchType.EXACT, name
            )
            for kind, name in entity.entries
        ]
    )

    async def work(client: Client) -> list[ClientQuota]:
        return await client.admin.describe_client_quotas(wanted)

    described = with_client(bootstrap, work, timeout=timeout)
    if json:
        print_json([_document(one) for one in described])
        return
    print_table(
        ["USER", "CLIENT", "IP", "QUOTA", "VALUE"],
        [
            (*_names(one.entity), key, f"{value:g}" if value % 1 else int(value))
            for one in described
            for key, value in sorted(one.quotas.items())
        ],
    )
    if not described:
        note("There are no such quotas.")


@app.command()
def alter(
    assignments: Annotated[
        list[str] | None, typer.Argument(metavar="[QUOTA=VALUE]...", help="New values.")
    ] = None,
    user: User = None,
    user_defaults: UserDefaults = False,
    client_id: ClientId = None,
    client_defaults: ClientDefaults = False,
    ip: Ip = None,
    ip_defaults: IpDefaults = False,
    delete: Annotated[
        list[str],
        typer.Option("--delete", "-d", metavar="QUOTA", help="Remove a quota; repeatable."),
    ] = [],  # noqa: B006 - typer copies it
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check only, change nothing.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Change quotas: producer_byte_rate, consumer_byte_rate, request_percentage and
    controller_mutation_rate of users and clients, connection_creation_rate of addresses.

    moldau quota alter --user alice --client reports consumer_byte_rate=1048576
    """
    from moldau.cli.parsing import parse_pairs

    entity = _entity(user, user_defaults, client_id, client_defaults, ip, ip_defaults)
    if not entity.entries:
        raise UsageError("say whose quotas: --user, --client, --ip, or the defaults of one of them")
    try:
        changes: dict[str, float | None] = {
            key: float(value) for key, value in parse_pairs(assignments or []).items()
        }
    except ValueError as error:
        raise UsageError(str(error)) from None
    changes |= dict.fromkeys(delete)
    if not changes:
        raise UsageError("nothing to change: give QUOTA=VALUE or --delete QUOTA")

    async def work(client: Client) -> None:
        (outcome,) = await client.admin.alter_client_quotas(
            {entity: changes}, validate_only=dry_run
        )
        outcome.get()

    with_client(bootstrap, work, timeout=timeout)
    whose = " and ".join(f"{kind} {name or DEFAULT}" for kind, name in entity.entries)
    note(f"{'Would change' if dry_run else 'Changed'} {', '.join(changes)} of {whose}.")


def _entity(
    user: str | None,
    user_defaults: bool,
    client_id: str | None,
    client_defaults: bool,
    ip: str | None,
    ip_defaults: bool,
) -> ClientQuotaEntity:
    from moldau.client.admin import ClientQuotaEntity

    entries: dict[str, str | None] = {}
    for kind, name, defaults in (
        ("user", user, user_defaults),
        ("client-id", client_id, client_defaults),
        ("ip", ip, ip_defaults),
    ):
        if name is not None and defaults:
            raise UsageError(f"a {kind} is either named or the default one")
        if name is not None or defaults:
            entries[kind] = name
    return ClientQuotaEntity.of(entries)


def _names(entity: ClientQuotaEntity) -> tuple[str, ...]:
    entries = entity.as_dict()
    return tuple(
        (entries[kind] or DEFAULT) if kind in entries else ""
        for kind in ("user", "client-id", "ip")
    )


def _document(one: ClientQuota) -> dict[str, Any]:
    """A name of null is the default one."""
    return {"entity": one.entity.as_dict(), "quotas": one.quotas}
