"""Schemas from a registry that speaks the Confluent API; each is asked for once per process."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from functools import lru_cache
from typing import Any, Final, NamedTuple

from moldau.spark.addresses import HINT, is_unclear
from moldau.spark.decode.columns import DecodeError

_TIMEOUT: Final = 30
_NOT_FOUND: Final = 404


class RegistryError(Exception):
    """The registry cannot be reached, or does not have what a query needs."""


class Registered(NamedTuple):
    """A schema, and the named types that it refers to, each before those that need it."""

    schema: str
    references: tuple[str, ...]


@lru_cache(maxsize=1000)
def schema_by_id(url: str, number: int) -> Registered:
    """``DecodeError`` if there is none: the record is at fault, not the query."""
    answer = _get(url, f"schemas/ids/{number}")
    if answer is None:
        raise DecodeError(f"there is no schema {number} in the registry")
    return _registered(url, answer)


@lru_cache(maxsize=100)
def latest_schema(url: str, subject: str) -> Registered:
    """What a subject's newest version says."""
    answer = _get(url, f"subjects/{urllib.parse.quote(subject, safe='')}/versions/latest")
    if answer is None:
        raise RegistryError(
            f"The registry has no subject {subject}; the options key.subject and value.subject "
            "name others"
        )
    return _registered(url, answer)


def check_registry(url: str, timeout: float) -> None:
    """``RegistryError`` if nobody answers there, or refuses to."""
    _get(url, "schemas/types", timeout)


def _registered(url: str, answer: Any) -> Registered:
    kind = answer.get("schemaType", "AVRO")
    if kind != "AVRO":
        raise DecodeError(f"the schema is of type {kind}, not Avro")
    references: dict[str, None] = {}
    for one in answer.get("references") or ():
        path = f"subjects/{urllib.parse.quote(one['subject'], safe='')}/versions/{one['version']}"
        found = _get(url, path)
        if found is None:
            raise RegistryError(f"The registry lacks {one['subject']}, which a schema refers to")
        inner = _registered(url, found)
        references.update(dict.fromkeys([*inner.references, inner.schema]))
    return Registered(answer["schema"], tuple(references))


def _get(url: str, path: str, timeout: float = _TIMEOUT) -> Any:
    """The answer's JSON; None when there is no such thing."""
    if is_unclear(url):
        raise RegistryError(f"The registry's address cannot be read: {HINT}")
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
    if parts.username is not None:
        user = (
            f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        )
        headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    where = f"{parts.scheme}://{host}{parts.path.rstrip('/')}/{path}"
    if parts.scheme not in ("http", "https"):
        raise RegistryError(f"The registry's address must begin with http: or https:, not {where}")
    request = urllib.request.Request(where, headers=headers)  # noqa: S310 - the scheme was checked
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == _NOT_FOUND:
                return None
        raise RegistryError(f"The registry answered {error.code} to {where}") from error
    except (OSError, ValueError) as error:
        raise RegistryError(f"The registry cannot be asked for {where}: {error}") from error
