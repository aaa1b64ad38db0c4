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
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from random import Random
from typing import Any

from moldau.broker.adoption import take_stock, while_unknown
from moldau.broker.broker import Broker
from moldau.broker.client_quotas import ClientQuotas
from moldau.broker.configs import Configs
from moldau.broker.controlled_shutdown import hand_over
from moldau.broker.controller_port import SOON_S
from moldau.broker.entrance import Entrance
from moldau.broker.fetch_sessions import FetchSessions
from moldau.broker.group_coordinator import group_coordinator_spec
from moldau.broker.link import LocalLink
from moldau.broker.listeners import BrokerListeners, bracketed
from moldau.broker.long_checks import LongChecks
from moldau.broker.metadata_cache import MetadataCache
from moldau.broker.ports import Coordination, Ports, coordination_of
from moldau.broker.producer_ids import ProducerIds
from moldau.broker.router import Router
from moldau.broker.routes import load_handlers
from moldau.broker.stalls import Stalls
from moldau.broker.transaction_coordinator import transaction_coordinator_spec
from moldau.broker.transaction_markers import TransactionMarkers
from moldau.broker.turns import others_turn
from moldau.config.altering.validation import (
    validate_broker_update,
    validate_group_configs,
    validate_topic_configs,
)
from moldau.config.option import ConfigError
from moldau.config.values.broker import BrokerConfig
from moldau.config.values.endpoints import Endpoint
from moldau.controller import (
    Controller,
    ControllerSettings,
    CreateTopicResult,
    NewTopic,
    ProducerIdBlock,
)
from moldau.controller.loading import load_broker_configs, load_topic_configs, load_topic_ids
from moldau.controller.settings import always_has_room
from moldau.coordination import cluster
from moldau.coordination.errors import (
    CoordinationError,
    EnsembleError,
    StoreLockedError,
    StoreUnavailableError,
)
from moldau.coordination.znodes import BrokerRegistration
from moldau.coordinators import CoordinatorRuntime, RuntimePorts
from moldau.errors import ErrorCode, KafkaError
from moldau.log import LogManager, StorageError
from moldau.log.directory.identity import (
    check_store,
    claim_directories,
    known_cluster_id,
)
from moldau.log.directory.intactness import (
    forget_intact_since,
    keep_intact_since,
    read_intact_since,
)
from moldau.log.files.partition_metadata import encode_uuid
from moldau.machine.backoff import Backoff
from moldau.machine.clock import steady_ms
from moldau.machine.errors import is_full, is_passing
from moldau.machine.real import real_machine
from moldau.machine.real.loop import run as run_loop
from moldau.model import TopicPartition
from moldau.net.memory_pool import MemoryPool
from moldau.quotas.meters import Window
from moldau.replication import LeaderPorts, ReplicaManager
from moldau.replication.isr import UNKNOWN_BROKER_EPOCH

log = logging.getLogger(__name__)

FETCH_SESSION_EVICTION_MS = 120_000
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
        self._router: Router
        self._intact_since = -1
        """The broker epoch since which this broker has lost no record; -1: not known."""
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
        with _in_plain_words():
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
        with _in_plain_words():
            await logs.start(while_unknown(configs.topic, known), known)
        # That may have taken longer than a session lasts.
        await store.close()
        store = coordination.session()
        # Only now: a broker that was refused the directories must not write anything into them.
        self._undo.push_async_callback(logs.shutdown)
        _report_recovery(logs)
        with _in_plain_words():
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
        self.broker = broker = self._build(configs, logs, cluster_id, alone=not shares_store)
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
            await self._look_for_losses(logs, log_dirs)
            # Imported where they are wanted: a broker without others does not pay for them.
            from moldau.broker.cluster_parts import ClusterParts

            with _in_plain_words():
                cluster_parts = await ClusterParts.make(broker, machine, store, link)
            self._undo.push_async_callback(cluster_parts.close)
        broker.controller = controller = Controller(
            config.node_id,
            coordination.session,
            partial(self._registration, broker),
            link if cluster_parts is None else cluster_parts.link,
            _controller_settings(configs, logs, strays, alone=not shares_store),
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
        entrance = Entrance(self._router)
        if cluster_parts is not None:
            cluster_parts.join(controller)
            self._undo.callback(cluster_parts.leave)
            broker.listeners.start_between_brokers(entrance)
        await store.close()
        with _in_plain_words():
            await controller.start()
        if cluster_parts is not None:
            await self._note_life(logs, controller.broker_epoch)
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

    async def _look_for_losses(self, logs: LogManager, log_dirs: Sequence[str]) -> None:
        """Find out since when this broker has lost nothing, for those who elect leaders."""
        run_in_thread = self._machine.threads.run
        if len(logs.online_dirs) == len(log_dirs):
            self._intact_since = await run_in_thread(
                read_intact_since, self._machine, log_dirs, logs.closed_cleanly
            )

        def forget() -> None:
            self._intact_since = -1
            forget_intact_since(self._machine, log_dirs)

        logs.on_directory_failed = forget
        if self._intact_since >= 0:
            await self._keep_intact_since(logs)
        else:
            log.info("records may have been lost: other replicas lead before those of this broker")

    async def _note_life(self, logs: LogManager, epoch: int) -> None:
        """From now on something is known of what is in the directories."""
        if self._intact_since < 0:
            self._intact_since = epoch
            await self._keep_intact_since(logs)

    async def _keep_intact_since(self, logs: LogManager) -> None:
        try:
            await self._machine.threads.run(
                keep_intact_since, self._machine, logs.online_dirs, self._intact_since
            )
        except OSError as error:
            # It will be taken for a broker that lost something.
            log.warning("it cannot be written down that nothing is lost: %s", error)

    async def _open_store(self, directory: str) -> Coordination:
        coordination = await self._ports.open_coordination(self._machine, directory)
        self._undo.push_async_callback(coordination.close)
        return coordination

    def _build(self, configs: Configs, logs: LogManager, cluster_id: str, *, alone: bool) -> Broker:
        config = self._config
        replicas = ReplicaManager(
            config.node_id,
            logs,
            configs.topic,
            LeaderPorts(partial(steady_ms, self._machine.clock), config.replica_lag_time_max_ms),
        )
        logs.use_high_watermarks(replicas.high_watermarks, replicas.high_watermark)

        async def next_block() -> ProducerIdBlock:
            return await broker.controller.within(SOON_S).next_producer_id_block(config.node_id)

        async def create_topic(topic: NewTopic) -> CreateTopicResult:
            (result,) = await broker.controller.within(SOON_S).create_topics([topic])
            return result

        broker = Broker(
            node_id=config.node_id,
            cluster_id=cluster_id,
            clock=self._machine.clock,
            run_in_thread=self._machine.threads.run,
            configs=configs,
            logs=logs,
            replicas=replicas,
            metadata=MetadataCache(),
            producer_ids=ProducerIds(next_block),
            fetch_sessions=FetchSessions(
                config.max_incremental_fetch_session_cache_slots,
                FETCH_SESSION_EVICTION_MS,
                randomness=self._machine.secrets,
            ),
            client_quotas=ClientQuotas(
                Window(config.quota_window_num, config.quota_window_size_seconds * 1000)
            ),
            long_checks=LongChecks(self._machine.threads.run),
            request_memory=MemoryPool(
                config.request_memory(self._machine.limits.memory()), self._machine.clock
            ),
        )
        broker.coordinators = CoordinatorRuntime(
            RuntimePorts(
                replicas=lambda topic: replicas.topics.get(topic, {}),
                clock=self._machine.clock,
                spawn=broker.tasks.spawn,
                partition_count=broker.metadata.partition_count,
                create_topic=create_topic,
            )
        )
        broker.groups = broker.coordinators.register(
            group_coordinator_spec(configs, broker.metadata, self._machine, alone=alone)
        )
        markers = TransactionMarkers(self._machine.random)
        broker.transactions = broker.coordinators.register(
            transaction_coordinator_spec(configs, markers, alone=alone)
        )
        markers.broker = broker
        broker.stalls = Stalls(broker.clock, broker.traffic.requests)
        self._router = Router(broker)
        broker.listeners = BrokerListeners(
            self._machine,
            configs,
            self._router,
            broker.client_quotas.connections,
            broker.tasks,
            broker.request_memory,
        )
        return broker

    async def _registration(self, broker: Broker) -> BrokerRegistration:
        """This broker as the others and the clients will know it."""
        return BrokerRegistration(
            id=broker.node_id,
            endpoints=await broker.listeners.advertised(broker.config),
            rack=self._config.broker_rack,
            intact_since=self._intact_since,
            min_insync_replicas=self._config.min_insync_replicas,
        )

    async def _close_listeners(self, broker: Broker) -> None:
        """Let nobody in; answer what is under way, long polls at once with what is there."""
        closing = broker.listeners.close()
        await others_turn()
        broker.coordinators.stop()
        broker.replicas.wake_all()
        await closing


def _controller_settings(
    configs: Configs, logs: LogManager, strays: Mapping[str, str], *, alone: bool
) -> ControllerSettings:
    config = configs.broker

    def validate_topic(overrides: Mapping[str, str]) -> None:
        validate_topic_configs(overrides, configs.broker)

    def validate_broker(entity: str, settings: Mapping[str, str]) -> None:
        validate_broker_update(configs.broker, settings, per_broker=bool(entity))

    def validate_group(settings: Mapping[str, str]) -> None:
        validate_group_configs(settings, configs.broker)

    return ControllerSettings(
        num_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        delete_topic_enable=config.delete_topic_enable,
        unclean_leader_election_enable=config.unclean_leader_election_enable,
        session_timeout_ms=config.value(BrokerConfig.zookeeper_session_timeout_ms),
        auto_leader_rebalance_enable=config.auto_leader_rebalance_enable and not alone,
        leader_imbalance_check_interval_s=config.leader_imbalance_check_interval_seconds,
        leader_imbalance_percentage=config.leader_imbalance_per_broker_percentage,
        mutation_window=Window(
            config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000
        ),
        cordoned=lambda: (config.node_id,) if logs.all_cordoned else (),
        # The store is elsewhere otherwise, and so are other disks.
        has_room=logs.has_room if alone else always_has_room,
        stray_topics=strays,
        validate_topic_config=validate_topic,
        validate_broker_config=validate_broker,
        validate_group_config=validate_group,
    )


@contextmanager
def _in_plain_words() -> Iterator[None]:
    """What keeps a broker from its directories, said so that a command can print it as it is."""
    try:
        yield
    except StoreLockedError as error:
        raise StorageError(
            f"{error.path} is locked: another broker runs in the same directory"
        ) from error
    except EnsembleError as error:
        raise ConfigError(f"zookeeper.connect: {error}") from error
    except StoreUnavailableError as error:
        raise StorageError(
            f"{error}. The room that the journal has of its own is used up: make some on the disk "
            "of the first log directory"
        ) from error
    except (CoordinationError, OSError) as error:
        raise StorageError(str(error)) from error


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
