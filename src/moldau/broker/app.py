"""A broker process: its parts made, wired, started in order, and stopped in the reverse one.

Start: open the store → open the logs, in threads → take over what another broker left in the
directories → bind the ports, so that the real ones can be advertised → let other brokers in, if
there may be any → join the cluster: the controller, here or on another broker, pushes leaders and
metadata → let clients in. None of them is let in before everything that was acknowledged can be
read.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from random import Random
from typing import Any

from moldau.broker.adoption import take_stock, while_unknown
from moldau.broker.broker import Broker
from moldau.broker.building import build
from moldau.broker.configs import Configs
from moldau.broker.controlled_shutdown import hand_over
from moldau.broker.controller_settings import controller_settings
from moldau.broker.entrance import Entrance
from moldau.broker.link import LocalLink
from moldau.broker.listeners import bracketed
from moldau.broker.losses import Losses
from moldau.broker.plain_words import in_plain_words
from moldau.broker.ports import Coordination, Ports, coordination_of
from moldau.broker.routes import load_handlers
from moldau.broker.turns import others_turn
from moldau.config.values.broker import BrokerConfig
from moldau.config.values.endpoints import Endpoint
from moldau.controller import (
    Controller,
)
from moldau.controller.loading import load_broker_configs, load_topic_configs, load_topic_ids
from moldau.coordination import cluster
from moldau.coordination.znodes import BrokerRegistration
from moldau.errors import ErrorCode, KafkaError
from moldau.log import LogManager, StorageError
from moldau.log.directory.identity import (
    check_store,
    claim_directories,
    known_cluster_id,
)
from moldau.log.files.partition_metadata import encode_uuid
from moldau.machine.backoff import Backoff
from moldau.machine.errors import is_full, is_passing
from moldau.machine.real import real_machine
from moldau.machine.real.loop import run as run_loop
from moldau.model import TopicPartition
from moldau.replication.isr import UNKNOWN_BROKER_EPOCH

log = logging.getLogger(__name__)

SETTLES_IN_AFTER_S = 1.0
SWITCH_INTERVAL_S = 0.001
"""For how long a thread that decodes a large request keeps the loop waiting; Python's own 0.005
would be felt with every system call.
"""


def run(config: BrokerConfig, on_ready: Callable[[list[str]], None]) -> int:
    """Serve until SIGTERM or SIGINT; ``on_ready`` gets the addresses once clients may come.

    Raises KAFKA_STORAGE_ERROR when the last log directory has failed.
    """
    return run_loop(_serve(config, on_ready))


async def _serve(config: BrokerConfig, on_ready: Callable[[list[str]], None]) -> int:
    stop = asyncio.Event()
    ports = Ports(real_machine(), coordination_of(config))
    ports.machine.signals.on_stop(stop.set)
    server = BrokerServer(config, ports)
    server.on_all_offline = stop.set
    try:
        if not await _unless(stop, server.start()):
            return 0
        on_ready(server.addresses)
        broker = server.broker
        settling_in = broker.clock.call_later(
            SETTLES_IN_AFTER_S, lambda: broker.tasks.spawn(_settle_in(broker))
        )
        broker.stalls.watch()
        try:
            await stop.wait()
        finally:
            settling_in.cancel()
            broker.stalls.stop()
    finally:
        await server.stop()
    if server.all_offline:
        raise StorageError("stopped, because all log directories have failed")
    return 0


async def _unless(stop: asyncio.Event, start: Coroutine[Any, Any, None]) -> bool:
    """Returns whether a start was completed before somebody asked to stop: it may have to wait, for
    the store or for a controller.
    """
    starting = asyncio.ensure_future(start)
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if starting.done():
        starting.result()
        return True
    starting.cancel()
    await asyncio.wait([starting])
    return False


async def _settle_in(broker: Broker) -> None:
    """What the first request need not wait for, and no later one should."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    await broker.run_in_thread(load_handlers)
    # Code, settings and logs stay: looking at them again and again in search of garbage would make
    # everybody wait.
    gc.collect()
    gc.freeze()


class BrokerServer:
    """One broker in this process."""

    def __init__(self, config: BrokerConfig, ports: Ports) -> None:
        self._config = config
        self._ports = ports
        self._machine = ports.machine
        self._undo = AsyncExitStack()
        self.broker: Broker
        """Its parts, once it has started."""
        self._leave: Callable[[], Awaitable[None]] | None = None
        self.metrics_url: str | None = None
        """Where metrics can be read, if ``metrics.listener`` is set."""
        self.all_offline = False
        """Whether every log directory has failed: there is nothing left to serve."""
        self.on_all_offline: Callable[[], None] | None = None

    @property
    def addresses(self) -> list[str]:
        """Where the listeners are, in the order of ``listeners``."""
        return self.broker.listeners.addresses

    async def start(self) -> None:
        config = self._config
        for warning in config.warnings:
            log.warning("%s", warning)
        if config.ignored:
            log.info("settings without effect here: %s", ", ".join(config.ignored))
        self._undo.callback(self._machine.threads.close)

        configs = Configs(config)
        machine = self._machine
        disk, run_in_thread = machine.disk, machine.threads.run
        log_dirs = [disk.absolute(path) for path in config.log_directories]
        with in_plain_words():
            coordination = await self._open_store(log_dirs[0])
            # For the start only; the broker will be registered in another session.
            store = coordination.session()
            is_new = await cluster.get_cluster_id(store) is None
            shares_store = not store.can_lose_changes
            await run_in_thread(
                partial(check_store, disk, log_dirs, is_shared=shares_store, is_new=is_new)
            )
            await cluster.prepare(store)
        configs.update(await load_topic_configs(store), {})
        logs = LogManager(machine, log_dirs, config)
        logs.on_all_offline = self._lost_all_directories
        known = await load_topic_ids(store)
        with in_plain_words():
            await logs.start(while_unknown(configs.topic, known), known)
        # That may have taken longer than a session lasts.
        await store.close()
        store = coordination.session()
        # Only now: a broker that was refused the directories must not write anything into them.
        self._undo.push_async_callback(logs.shutdown)
        _report_recovery(logs)
        with in_plain_words():
            strays = await take_stock(store, machine, log_dirs, logs, configs, is_new=is_new)
            known_id = await run_in_thread(known_cluster_id, disk, logs.online_dirs)
            cluster_id = await cluster.ensure_cluster_id(
                store, known_id or encode_uuid(machine.new_uuid())
            )
        for path in logs.online_dirs:
            try:
                await run_in_thread(claim_directories, machine, [path], cluster_id, config.node_id)
            except OSError as error:
                if is_full(error) or is_passing(error):
                    log.warning("%s cannot be claimed for now: %s", path, error)
                else:
                    logs.fail_dir(path, str(error))

        # What was set at run time holds over the file: also where to listen.
        configs.update({}, await load_broker_configs(store))
        losses = Losses(machine, log_dirs)
        broker, router = build(config, machine, configs, logs, cluster_id, alone=not shares_store)
        self.broker = broker
        configs.on_broker_change.append(logs.reconfigure)
        # For a start that fails before the listeners are closed in their turn.
        self._undo.push_async_callback(broker.listeners.close)
        await broker.listeners.bind()
        link = LocalLink(
            configs,
            broker.client_quotas,
            broker.replicas,
            broker.metadata,
            broker.coordinators,
            broker.groups,
            lambda: controller.broker_epoch,
        )
        self._undo.push_async_callback(link.close)
        cluster_parts = None
        if shares_store:
            await losses.look_for(logs)
            # Imported where they are wanted: a broker without others does not pay for them.
            from moldau.broker.cluster_parts import ClusterParts

            with in_plain_words():
                cluster_parts = await ClusterParts.make(broker, machine, store, link)
            self._undo.push_async_callback(cluster_parts.close)
        broker.controller = controller = Controller(
            config.node_id,
            coordination.session,
            partial(_registration, config, broker, losses),
            link if cluster_parts is None else cluster_parts.link,
            controller_settings(configs, logs, strays, alone=not shares_store),
            clock=machine.clock,
            random=machine.random,
            new_topic_id=machine.new_uuid,
            on_session_lost=_report_lost_session if shares_store else _report_lost_store,
        )
        broker.replicas.on_offline = partial(
            _report_offline, broker, lambda: controller.broker_epoch, machine.random
        )
        self._undo.push_async_callback(controller.stop)
        self._undo.push_async_callback(broker.tasks.cancel)
        self._undo.push_async_callback(self._close_listeners, broker)
        entrance = Entrance(router)
        if cluster_parts is not None:
            cluster_parts.join(controller)
            self._undo.callback(cluster_parts.leave)
            broker.listeners.start_between_brokers(entrance)
        await store.close()
        with in_plain_words():
            await controller.start()
        if cluster_parts is not None:
            await losses.note_life(logs, controller.broker_epoch)
            self._leave = partial(self._leave_cluster, controller)
        if not link.complete.is_set():
            log.info("waiting for the controller to tell this broker everything")
            await link.complete.wait()
        entrance.open()
        broker.listeners.start()
        metrics = config.metrics_endpoint
        if metrics is not None:
            self._serve_metrics(metrics, broker, lambda: controller.is_active)

    def _serve_metrics(
        self, endpoint: Endpoint, broker: Broker, is_controller: Callable[[], bool]
    ) -> None:
        # Imported where they are wanted: no other broker pays for them.
        from moldau.broker.metrics import broker_metrics
        from moldau.metrics import CONTENT_TYPE
        from moldau.net.text_server import Page, TextServer

        registry = broker_metrics(broker, is_controller)
        pages = {"/metrics": Page(CONTENT_TYPE, registry.render)}
        server = TextServer(self._machine, endpoint.host, endpoint.port, pages)
        server.start()
        self._undo.callback(server.close)
        self.metrics_url = f"http://{bracketed(server.host)}:{server.port}/metrics"
        log.info("metrics are at %s", self.metrics_url)

    def _lost_all_directories(self) -> None:
        self.all_offline = True
        if self.on_all_offline is not None:
            self.on_all_offline()

    async def stop(self) -> None:
        """Stop whatever was started, newest first; before, have others lead what this one leads."""
        if self._leave is not None:
            await self._leave()
        await self._undo.aclose()

    async def _leave_cluster(self, controller: Controller) -> None:
        if self._config.controlled_shutdown_enable:
            await hand_over(
                self.broker.controller,
                self._config.node_id,
                lambda: controller.broker_epoch,
                lambda: controller.reaches_store,
                self._config,
                self._machine.clock,
            )
        if not controller.reaches_store:
            # Nobody learns of it before the session is over; but who asked this broker for what
            # waits for the store would be waited for.
            await controller.stop()

    async def _open_store(self, directory: str) -> Coordination:
        coordination = await self._ports.open_coordination(self._machine, directory)
        self._undo.push_async_callback(coordination.close)
        return coordination

    async def _close_listeners(self, broker: Broker) -> None:
        """Let nobody in; answer what is under way, long polls at once with what is there."""
        closing = broker.listeners.close()
        await others_turn()
        broker.coordinators.stop()
        broker.replicas.wake_all()
        await closing


async def _registration(config: BrokerConfig, broker: Broker, losses: Losses) -> BrokerRegistration:
    """This broker as the others and the clients will know it."""
    return BrokerRegistration(
        id=broker.node_id,
        endpoints=await broker.listeners.advertised(broker.config),
        rack=config.broker_rack,
        intact_since=losses.intact_since,
        min_insync_replicas=config.min_insync_replicas,
    )


def _report_lost_store() -> None:
    log.error(
        "the coordination store cannot be written: topics and settings cannot be changed until the "
        "disk is repaired and the broker restarted; reading and appending go on"
    )


def _report_lost_session() -> None:
    log.warning(
        "the session on the coordination store is over: other brokers may lead what this one led; "
        "it joins the cluster again as soon as it can, and reading and appending go on"
    )


def _report_offline(
    broker: Broker, broker_epoch: Callable[[], int], random: Random, lost: list[TopicPartition]
) -> None:
    """Other replicas have to lead what this broker has lost with a disk."""

    async def report() -> None:
        backoff = Backoff(broker.clock, random)
        while True:
            try:
                epoch = broker_epoch()
                if epoch == UNKNOWN_BROKER_EPOCH:
                    raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "not registered")
                await broker.controller.offline_replicas(broker.node_id, epoch, lost)
            except KafkaError as error:
                log.error(
                    "the controller is not told yet of %d lost replicas: %s", len(lost), error
                )
            else:
                return
            await backoff.wait()

    broker.tasks.spawn(report())


def _report_recovery(logs: LogManager) -> None:
    recovery = logs.recovery
    if recovery.segments_scanned:
        log.info(
            "recovered after an unclean stop: %d segments, %d bytes checked, %d bytes cut off",
            recovery.segments_scanned,
            recovery.bytes_scanned,
            recovery.bytes_truncated,
        )
