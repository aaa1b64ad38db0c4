"""Running one command against a cluster, and the hints that go with its failures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from moldau.cli.command_config import client_config
from moldau.cli.exit_codes import CommandError, ExitCode, UsageError

if TYPE_CHECKING:
    from moldau.client.client import Client
    from moldau.client.metadata import TopicInfo

T = TypeVar("T")

DEFAULT_TIMEOUT = 30.0


def with_client(
    bootstrap: str,
    work: Callable[[Client], Awaitable[T]],
    *,
    timeout: float = DEFAULT_TIMEOUT,
) -> T:
    """Connect, do the work, disconnect. Ctrl-C cancels the work."""
    from moldau.client.client import Client
    from moldau.client.errors import NoBrokersError
    from moldau.client.settings import CommonSettings
    from moldau.machine.real.loop import run
    from moldau.net.address import parse_bootstrap

    try:
        parse_bootstrap(bootstrap)
    except ValueError as error:
        raise UsageError(str(error)) from None
    client = Client(bootstrap, request_timeout=timeout, config=client_config(CommonSettings, {}))

    async def main() -> T:
        try:
            await client.start()
            return await work(client)
        except NoBrokersError as error:
            raise CommandError(
                f"{error.message}. Is a broker running there? `moldau up` starts one.",
                ExitCode.CANNOT_CONNECT,
            ) from error
        finally:
            await client.close()

    return run(main())


async def existing_topic(client: Client, topic: str) -> TopicInfo:
    """What the cluster knows about a topic; a failure with a hint when there is none."""
    from moldau.client.errors import UnknownTopicError

    try:
        return await client.cluster.topic(topic)
    except UnknownTopicError:
        names = [info.name for info in await client.admin.list_topics(internal=True)]
        raise CommandError(
            f"There is no topic {topic!r}.{did_you_mean(topic, names)}", ExitCode.NOT_FOUND
        ) from None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence with the closest known name, or nothing."""
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), n=1, cutoff=0.7)
    return f" Did you mean {close[0]!r}?" if close else ""
