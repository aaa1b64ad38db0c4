"""What is asked of the controller reaches it wherever it is, and nothing is asked twice that may
have been done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, get_args

import msgspec
import pytest
from tests.unit.broker.peers_world import registration

from moldau.broker.controller_port import ControllerClient
from moldau.broker.controller_requests import CALLS, ControllerRequest, put_to
from moldau.broker.forwarding import ForwardingController
from moldau.broker.peers import UnreachableError
from moldau.controller import NewTopic, ProducerIdBlock
from moldau.coordination.znodes import BrokerRegistration
from moldau.errors import ErrorCode, KafkaError
from moldau.model import ElectionType
from moldau.request_errors import ConnectionLostError, TimedOutError
from moldau.testing.simulation import Simulation
from moldau.wire.private import PrivateApi

HERE, THERE = 1, 2


class Controllers:
    """This broker's controller, and the way to another's, with answers that a test has laid out."""

    def __init__(self, controller_id: int = THERE) -> None:
        self.is_active = controller_id == HERE
        self.controller_id = controller_id
        self.answers: list[Any] = []
        self.asked: list[tuple[str, float]] = []
        self.located: list[bool] = []
        self.is_registered = True
        self.is_reachable = True

    async def next_producer_id_block(self, broker: int) -> Any:
        self.asked.append(("here", 0.0))
        return await self._next()

    async def call(
        self,
        broker: BrokerRegistration,
        api: PrivateApi,
        body: object,
        *,
        answer: Any,
        within: float,
        on_asked: Callable[[], object],
    ) -> Any:
        assert api is PrivateApi.CONTROLLER_REQUEST
        assert body == CALLS["next_producer_id_block"].ask(HERE)
        assert answer is ProducerIdBlock
        self.asked.append((f"at {broker.id}", within))
        if self.is_reachable:
            on_asked()
        return await self._next()

    async def locate(self, broker: int, fresh: bool) -> BrokerRegistration | None:
        self.located.append(fresh)
        return registration(node_id=broker) if self.is_registered else None

    async def _next(self) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer = answer()
        if isinstance(answer, asyncio.Event):
            await answer.wait()
        return answer


BLOCK = ProducerIdBlock(0, 1000)
NOT_CONTROLLER = KafkaError(ErrorCode.NOT_CONTROLLER)

Story = Callable[[ForwardingController], Coroutine[Any, Any, None]]


def run(controllers: Any, story: Story, *, within: float = 10.0) -> float:
    """Returns how long it took."""

    async def live() -> None:
        node = simulation.node("here")
        machine = node.boot()
        controller = ForwardingController(
            controllers, controllers, controllers.locate, machine, within=within
        )
        await node.run(story(controller))

    simulation = Simulation(1)
    with simulation:
        simulation.run(live())
        return simulation.time


def ask(controllers: Controllers, *, within: float = 10.0) -> ProducerIdBlock | KafkaError:
    """Returns what becomes of one request."""
    result: list[ProducerIdBlock | KafkaError] = []

    async def story(controller: ForwardingController) -> None:
        try:
            result.append(await controller.next_producer_id_block(HERE))
        except KafkaError as error:
            result.append(error)

    run(controllers, story, within=within)
    return result[0]


def test_a_broker_in_charge_asks_itself() -> None:
    controllers = Controllers(HERE)
    controllers.answers = [BLOCK]
    assert ask(controllers) == BLOCK
    assert controllers.asked == [("here", 0.0)]


def test_another_is_asked_over_the_network_with_the_time_that_is_left() -> None:
    controllers = Controllers()
    controllers.answers = [BLOCK]
    assert ask(controllers, within=7) == BLOCK
    assert controllers.asked == [("at 2", 7.0)]
    assert controllers.located == [False]


@pytest.mark.parametrize("failure", [NOT_CONTROLLER, UnreachableError("for this test")])
def test_who_has_certainly_done_nothing_does_not_end_the_request(failure: KafkaError) -> None:
    controllers = Controllers()
    controllers.answers = [failure, failure, BLOCK]
    assert ask(controllers) == BLOCK
    # What was known of where the controller is may be the reason.
    assert controllers.located == [False, True, True]


def test_whoever_is_in_charge_by_then_is_asked() -> None:
    controllers = Controllers()

    def elected() -> None:
        controllers.is_active, controllers.controller_id = True, HERE
        raise NOT_CONTROLLER

    controllers.answers = [elected, BLOCK]
    assert ask(controllers) == BLOCK
    assert [where for where, _ in controllers.asked] == ["at 2", "here"]


@pytest.mark.parametrize("lost", [ConnectionLostError("lost"), TimedOutError("late")])
def test_a_connection_lost_in_the_middle_is_a_request_of_unknown_fate(lost: KafkaError) -> None:
    controllers = Controllers()
    controllers.answers = [lost]
    answer = ask(controllers)
    assert isinstance(answer, KafkaError)
    assert answer.code is ErrorCode.REQUEST_TIMED_OUT
    assert len(controllers.asked) == 1


def test_what_the_controller_answers_is_the_answer() -> None:
    controllers = Controllers()
    controllers.answers = [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")]
    answer = ask(controllers)
    assert isinstance(answer, KafkaError)
    assert (answer.code, answer.message) == (ErrorCode.KAFKA_STORAGE_ERROR, "full")


@pytest.mark.parametrize("in_charge", [-1, THERE])
def test_while_nobody_is_in_charge_it_waits_until_its_time_is_up(in_charge: int) -> None:
    controllers = Controllers(in_charge)
    controllers.is_registered = False

    async def story(controller: ForwardingController) -> None:
        with pytest.raises(KafkaError) as failed:
            await controller.within(4.0).next_producer_id_block(HERE)
        assert failed.value.code is ErrorCode.NOT_CONTROLLER

    assert 3.5 <= run(controllers, story) <= 4.0


def test_a_controller_that_is_elected_meanwhile_gets_the_request() -> None:
    controllers = Controllers(-1)
    controllers.answers = [BLOCK]

    async def story(controller: ForwardingController) -> None:
        asking = asyncio.ensure_future(controller.next_producer_id_block(HERE))
        await asyncio.sleep(3)
        controllers.controller_id = THERE
        assert await asking == BLOCK

    run(controllers, story)


def test_who_is_replaced_before_it_answers_is_not_waited_for() -> None:
    """It is paused or cut off, for longer than the request has; nobody knows what it did."""
    controllers = Controllers()
    controllers.answers = [asyncio.Event]

    async def story(controller: ForwardingController) -> None:
        asking = asyncio.ensure_future(controller.next_producer_id_block(HERE))
        await asyncio.sleep(1)
        controllers.controller_id = -1
        await asyncio.sleep(1)
        assert not asking.done()
        controllers.controller_id = 3
        await asyncio.sleep(0.5)
        with pytest.raises(KafkaError) as failed:
            asking.result()
        assert failed.value.code is ErrorCode.REQUEST_TIMED_OUT

    run(controllers, story)


def test_who_is_replaced_before_it_was_reached_has_done_nothing() -> None:
    controllers = Controllers()
    controllers.answers = [asyncio.Event, BLOCK]
    controllers.is_reachable = False

    async def story(controller: ForwardingController) -> None:
        asking = asyncio.ensure_future(controller.next_producer_id_block(HERE))
        await asyncio.sleep(1)
        controllers.controller_id = 3
        assert await asking == BLOCK
        assert [where for where, _ in controllers.asked] == ["at 2", "at 3"]

    run(controllers, story)


def test_every_question_has_a_message_and_no_other_is_carried() -> None:
    methods = {name for name in vars(ControllerClient) if not name.startswith("_")} - {"within"}
    assert methods == set(CALLS)
    assert len(get_args(ControllerRequest)) == len(methods)
    controllers: Any = Controllers()
    controller = ForwardingController(controllers, controllers, controllers, controllers, within=1)
    for name in methods:
        assert callable(getattr(controller, name))
    with pytest.raises(AttributeError):
        controller.settled  # noqa: B018 - only the controller itself has that


def test_a_message_has_what_was_asked_and_the_defaults_of_the_rest() -> None:
    topics = [NewTopic(name="t")]
    message: Any = CALLS["create_topics"].ask(topics, mutator=None)
    assert type(message).__name__ == "CreateTopics"
    assert (message.topics, message.validate_only, message.mutator) == (topics, False, None)
    with pytest.raises(TypeError):
        CALLS["create_topics"].ask()


class Recording:
    """A controller that only remembers what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        async def remember(*args: Any, **named: Any) -> None:
            self.asked.append((name, args, named))

        return remember


EXAMPLES: list[Any] = [
    CALLS["elect_leaders"].ask(ElectionType.PREFERRED, None),
    CALLS["next_producer_id_block"].ask(3),
    CALLS["offline_replicas"].ask(3, 17, [("t", 1)]),
    CALLS["controlled_shutdown"].ask(3, 7),
    CALLS["auto_create"].ask(["t"]),
]


@pytest.mark.parametrize("message", EXAMPLES)
async def test_messages_are_told_apart_by_their_tag(message: Any) -> None:
    decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=ControllerRequest)
    assert type(decoded) is type(message)
    sent, received = Recording(), Recording()
    controllers: list[Any] = [sent, received]
    for one, controller in zip((message, decoded), controllers, strict=True):
        await put_to(one, controller)
    assert received.asked == sent.asked
