"""A status page, metrics, and an endpoint that takes alerts from webhooks.

    GET  /             the page
    GET  /status.json  its numbers
    GET  /metrics      the same for Prometheus
    POST /alerts       one alert, or a list of alerts; 202 when all of them are stored

With a token, every request needs ``Authorization: Bearer <token>``; what is only looked at takes
it as ``?token=``, too. Requests must be for a host that is this one (``http_hosts``). The port is
meant for loopback or a trusted network: there is no TLS. Whoever is slow or many is cut off:
webhooks must take neither the status page nor the files of the process away.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
import uvicorn
from jinja2 import Environment, PackageLoader
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from moldau.client.errors import KafkaError, RecordTooLargeError
from moldau.config.option import ConfigError
from moldau.mailalert.alert import Alert, InvalidAlertError, decode_alert
from moldau.mailalert.http_hosts import KnownHosts
from moldau.mailalert.http_protocol import TimedProtocol
from moldau.mailalert.producer import AlertSender
from moldau.mailalert.rendering import show_time
from moldau.mailalert.status import read_status

if TYPE_CHECKING:
    from moldau.mailalert.app import MailAlert

_log = logging.getLogger(__name__)

_MAX_BODY: Final = 4 * 1024 * 1024
_MAX_READ: Final = 4 * _MAX_BODY
_STORED_WITHIN: Final = 30.0
_READ_WITHIN: Final = 30.0
"""Seconds that a client may take for its request."""
_WEBHOOKS_AT_ONCE: Final = 20
"""Each waits in a thread for the broker; there are 40 threads, and the page needs some."""


class StatusServer:
    """uvicorn in a thread of its own."""

    def __init__(
        self, app: MailAlert, sender: AlertSender, host: str, port: int, *, token: str | None
    ) -> None:
        self._app = app
        self._sender = sender
        self._token = token
        self._turns = asyncio.Semaphore(_WEBHOOKS_AT_ONCE)
        templates = Environment(loader=PackageLoader("moldau.mailalert"), autoescape=True)
        templates.filters["moment"] = show_time
        self._page = templates.get_template("status.html")
        routes = [
            Route("/", self._show_page),
            Route("/status.json", self._show_status),
            Route("/metrics", self._show_metrics),
            Route("/alerts", self._take_alerts, methods=["POST"]),
        ]
        self._allowed_recipients = app.settings.allowed()
        pages = Starlette(routes=routes, exception_handlers={SQLAlchemyError: _no_database})
        config = uvicorn.Config(
            KnownHosts(pages, (host, *app.settings.http.hosts)),
            host=host,
            port=port,
            log_config=None,  # where everything is logged
            log_level="warning",
            access_log=False,
            http=TimedProtocol,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, name="mailalert web", daemon=True)

    @property
    def port(self) -> int:
        """The real one, also when 0 was asked for."""
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return port

    def start(self) -> None:
        """Return once the port is open; ``ConfigError`` if it cannot be."""
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                config = self._server.config
                where = f"{config.host}:{config.port}"
                raise ConfigError(f"http.listen: the port {where} is taken or not of this machine")
            time.sleep(0.01)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(10.0)

    def status(self) -> dict[str, Any]:
        """Everything the page shows."""
        app = self._app
        now_ms = time.time_ns() // 1_000_000
        stored = read_status(app.database, now_ms)
        intake, pool = app.intake, app.pool
        assert intake is not None
        assert pool is not None
        return {
            "time_ms": now_ms,
            "topic": app.settings.topic,
            "group": app.settings.group_id,
            "queue": {
                "length": app.queue.qsize(),
                "capacity": app.queue.maxsize,
                "paused": intake.paused,
            },
            "received": intake.received,
            "alerts": stored.alerts,
            "mails": stored.mails,
            "rate": {
                "limit": app.limiter.rate,
                "burst": app.limiter.burst,
                "sent_last_minute": stored.sent_last_minute,
            },
            "oldest_waiting_ms": stored.oldest_waiting_ms,
            "outage": pool.outage.error,
            "last_errors": stored.last_errors,
        }

    async def _show_page(self, request: Request) -> Response:
        if not self._allowed(request):
            return _refusal()
        status = await run_in_threadpool(self.status)
        return HTMLResponse(self._page.render(status=status))

    async def _show_status(self, request: Request) -> Response:
        if not self._allowed(request):
            return _refusal()
        return JSONResponse(await run_in_threadpool(self.status))

    async def _show_metrics(self, request: Request) -> Response:
        if not self._allowed(request):
            return _refusal()
        status = await run_in_threadpool(self.status)
        return PlainTextResponse(render_metrics(status), media_type="text/plain; version=0.0.4")

    async def _take_alerts(self, request: Request) -> Response:
        if not self._allowed(request):
            return _refusal()
        if self._token is None and "origin" in request.headers:
            # Any page that somebody looks at could reach the loopback address.
            return _error("without a token, alerts are not taken from browsers", 403)
        try:
            async with asyncio.timeout(_READ_WITHIN):
                body = await _read(request)
        except TimeoutError:
            return _error("the request did not arrive in time", 408)
        if body is None:
            return _error("the request is larger than 4 MiB", 413)
        try:
            alerts = _decode(body)
            for alert in alerts:
                self._allowed_recipients.check(alert)
        except InvalidAlertError as error:
            return _error(str(error), 400)
        return await self._store(alerts)

    async def _store(self, alerts: list[Alert]) -> Response:
        try:
            await asyncio.wait_for(self._turns.acquire(), _STORED_WITHIN)
        except TimeoutError:
            return _error("too many alerts at once; send them again", 503)
        try:
            await run_in_threadpool(self._send, alerts)
        except RecordTooLargeError as error:
            return _error(str(error), 413)
        except (KafkaError, TimeoutError) as error:
            _log.warning("alerts from a webhook could not be stored: %s", error)
            return _error("the alerts could not be stored; send them again", 503)
        finally:
            self._turns.release()
        return JSONResponse({"stored": len(alerts)}, 202)

    def _send(self, alerts: list[Alert]) -> None:
        for delivery in [self._sender.send(alert) for alert in alerts]:
            delivery.result(_STORED_WITHIN)

    def _allowed(self, request: Request) -> bool:
        if self._token is None:
            return True
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            # For people who open the page. Programs have no reason to put it into an address, which
            # logs and histories keep.
            looks = request.method in ("GET", "HEAD")
            given = request.query_params.get("token", "") if looks else ""
        return secrets.compare_digest(given.encode(), self._token.encode())


def render_metrics(status: dict[str, Any]) -> str:
    """Prometheus' text format."""
    lines = [
        "# TYPE mailalert_queue_length gauge",
        f"mailalert_queue_length {status['queue']['length']}",
        "# TYPE mailalert_queue_capacity gauge",
        f"mailalert_queue_capacity {status['queue']['capacity']}",
        "# TYPE mailalert_received_total counter",
        f"mailalert_received_total {status['received']}",
        "# TYPE mailalert_server_available gauge",
        f"mailalert_server_available {0 if status['outage'] else 1}",
        "# TYPE mailalert_sent_last_minute gauge",
        f"mailalert_sent_last_minute {status['rate']['sent_last_minute']}",
        "# TYPE mailalert_alerts gauge",
        *(f'mailalert_alerts{{state="{s}"}} {n}' for s, n in status["alerts"].items()),
        "# TYPE mailalert_mails gauge",
        *(f'mailalert_mails{{state="{s}"}} {n}' for s, n in status["mails"].items()),
    ]
    return "\n".join(lines) + "\n"


async def _read(request: Request) -> bytes | None:
    """The body, or None when it is too large.

    It is read to its end nevertheless, within reason: a client that is still sending when the
    connection closes never sees the answer.
    """
    body = bytearray()
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= _MAX_BODY:
            body += chunk
        elif size > _MAX_READ:
            break
    return bytes(body) if size <= _MAX_BODY else None


def _decode(body: bytes) -> list[Alert]:
    """One alert, or all of a list; ``InvalidAlertError`` if there is anything else."""
    try:
        raw = msgspec.json.decode(body, type=list[msgspec.Raw] | dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidAlertError(str(error)) from error
    texts = [bytes(one) for one in raw] if isinstance(raw, list) else [body]
    now_ms = time.time_ns() // 1_000_000
    return [decode_alert(text, now_ms) for text in texts]


def _error(text: str, code: int) -> Response:
    return JSONResponse({"error": text}, code)


def _refusal() -> Response:
    return JSONResponse({"error": "a token is needed"}, 401, headers={"WWW-Authenticate": "Bearer"})


async def _no_database(_request: Request, error: Exception) -> Response:
    _log.warning("the status cannot be read: %s", error)
    return _error("the database does not answer", 503)
