"""Clients of secured clusters: one Apache Kafka with TLS, logins, both, and logins that run out.

Time-outs here are far beyond that of a test: what should fail at once would hang.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.support.apache_kafka import ApacheKafka
from tests.support.certificates import KEY_PASSWORD, Certificates, make_certificates
from tests.support.cli import CommandLine
from tests.support.secured_kafka import (
    EXPIRING,
    MISNAMED,
    MUTUAL,
    PASSWORD,
    SASL_PLAINTEXT,
    SASL_SSL,
    SSL,
    USER,
    add_user,
    secured_kafka,
    unsecured_token,
)

from moldau import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    AuthenticationError,
    Consumer,
    Delivery,
    ErrorCode,
    KafkaError,
    NewTopic,
    PartitionReader,
    Producer,
    SslAuthenticationError,
    TopicPartition,
)
from moldau.client.admin import ScramCredential, ScramDeletion
from moldau.client.client import Client

Config = dict[str, Any]

FOREVER: Config = {"max_block_ms": 1_200_000, "delivery_timeout_ms": 1_300_000}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def kafka(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[ApacheKafka]:
    broker = secured_kafka(tmp_path_factory.mktemp("secured"), certificates, {})
    try:
        broker.start()
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            add_user(broker, USER, mechanism)
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def over(kafka: ApacheKafka, certificates: Certificates) -> Callable[..., Config]:
    """Settings of a client at a listener, with TLS as it should be where there is TLS."""

    def settings(listener: str, **more: object) -> Config:
        protocols = {SASL_SSL: "SASL_SSL", SASL_PLAINTEXT: "SASL_PLAINTEXT"}
        protocols[EXPIRING] = "SASL_PLAINTEXT"
        protocol = protocols.get(listener, "SSL")
        config: Config = {
            "bootstrap_servers": kafka.address(listener),
            "security_protocol": protocol,
        }
        if protocol.endswith("SSL"):
            config["ssl_truststore_location"] = str(certificates.authority)
        return config | more

    return settings


def login(mechanism: str, password: str = PASSWORD, user: str = USER) -> Config:
    return {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": password}


def round_trip(config: Config) -> None:
    """Administration, producing, a group: everything that a client does."""
    topic = f"secured-{uuid.uuid4().hex[:12]}"
    with Admin(**config) as admin:
        admin.create_topics([NewTopic(topic, 2)])[0].get()
        with Producer(**config) as producer:
            sent = producer.send_many(topic, [b"%d" % number for number in range(100)])
            assert len(sent.result(60)) == 100
        with Consumer(**config, group_id=topic, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([topic])
            seen: list[bytes] = []
            while len(seen) < 100:
                seen += [record.value for record in consumer.poll(timeout=1.0).records()]
            consumer.commit()
        assert sorted(map(int, seen)) == list(range(100))
        assert sum(at.offset for at in admin.list_group_offsets(topic).values()) == 100


# Ways in


def test_tls(over: Callable[..., Config]) -> None:
    round_trip(over(SSL))


def test_a_password_inside_tls(over: Callable[..., Config]) -> None:
    round_trip(over(SASL_SSL, **login("PLAIN")))
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        with Admin(**over(SASL_SSL, **login(mechanism))) as admin:
            admin.list_topics()


def test_a_password_without_tls(over: Callable[..., Config]) -> None:
    round_trip(over(SASL_PLAINTEXT, **login("SCRAM-SHA-512")))


def test_a_token(over: Callable[..., Config]) -> None:
    asked: list[str] = []

    def provider() -> tuple[str, float]:
        asked.append("token")
        return unsecured_token()

    config = over(SASL_SSL, sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token_provider=provider)
    with Producer(**config) as producer:
        producer.send("tokens", b"x", partition=0).result(60)
    assert asked == ["token"]  # once for all connections


def test_a_token_from_an_endpoint(over: Callable[..., Config]) -> None:
    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            body = f'{{"access_token": "{unsecured_token()[0]}", "expires_in": 600}}'
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            config = over(
                SASL_SSL,
                sasl_mechanism="OAUTHBEARER",
                sasl_oauthbearer_token_endpoint_url=f"http://127.0.0.1:{server.server_port}/",
                sasl_oauthbearer_client_id="client",
                sasl_oauthbearer_client_secret="secret",
            )
            with Producer(**config) as producer:
                producer.send("tokens", b"x", partition=0).result(60)
        finally:
            server.shutdown()
            thread.join()


async def test_async_clients_and_a_context_of_ones_own(
    kafka: ApacheKafka, certificates: Certificates
) -> None:
    context = ssl.create_default_context(cafile=certificates.authority)
    context.load_cert_chain(certificates.client)
    config: Config = {
        "bootstrap_servers": kafka.address(MUTUAL),
        "security_protocol": "SSL",
        "ssl_context": context,
    }
    where = TopicPartition(f"secured-{uuid.uuid4().hex[:12]}", 0)
    async with AsyncAdmin(**config) as admin:
        (await admin.create_topics([NewTopic(where.topic)]))[0].get()
    large = b"x" * 900_000
    async with AsyncProducer(**config) as producer:
        await (await producer.send(where.topic, large))
    async with AsyncConsumer(**config) as consumer:
        consumer.assign([where])
        consumer.seek(where, 0)
        assert [r.value for r in await consumer.consume_batch(1, timeout=60)] == [large]
    del config["bootstrap_servers"]
    dotted = {name.replace("_", "."): value for name, value in config.items()}
    async with Client(kafka.address(MUTUAL), config=dotted) as client:
        reader = PartitionReader(client.cluster, {where: 0}, until={where: 1})
        assert [records[0].value async for _, records, _ in reader] == [large]


def test_a_clients_certificate(over: Callable[..., Config], certificates: Certificates) -> None:
    round_trip(
        over(
            MUTUAL,
            ssl_certificate_location=str(certificates.client_chain),
            ssl_key_location=str(certificates.client_key),
            ssl_key_password=KEY_PASSWORD,
        )
    )


# No way in


def test_a_wrong_password_fails_at_once(over: Callable[..., Config]) -> None:
    config = over(SASL_SSL, **login("SCRAM-SHA-256", "wrong-password"))
    failures: list[KafkaError] = []
    with Producer(**config, **FOREVER) as producer, pytest.raises(AuthenticationError) as caught:
        producer.send("any", b"x")
    failures.append(caught.value)
    with Consumer(**config, group_id="any", default_api_timeout_ms=1_200_000) as consumer:
        consumer.subscribe(["any"])
        with pytest.raises(AuthenticationError) as caught:
            read_forever(consumer)
    failures.append(caught.value)
    with (
        Admin(**config, default_api_timeout_ms=1_200_000) as admin,
        pytest.raises(AuthenticationError) as caught,
    ):
        admin.list_topics()
    failures.append(caught.value)
    for failure in failures:
        assert failure.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "Authentication failed" in failure.message  # the broker's words
        assert "wrong-password" not in str(failure)
        assert not failure.retriable


def read_forever(consumer: Consumer) -> None:
    while True:
        consumer.poll(timeout=1200)


async def test_an_async_client_does_not_even_start(over: Callable[..., Config]) -> None:
    config = over(SASL_PLAINTEXT, **login("SCRAM-SHA-256", user="nobody"))
    admin = AsyncAdmin(**config)
    with pytest.raises(AuthenticationError):
        await admin.start()
    await admin.close()


def test_a_refused_token(over: Callable[..., Config]) -> None:
    config = over(SASL_SSL, sasl_mechanism="OAUTHBEARER")
    config["sasl_oauthbearer_token_provider"] = lambda: "not.a.token"
    with (
        Producer(**config, **FOREVER) as producer,
        pytest.raises(AuthenticationError, match="invalid_token"),
    ):
        producer.send("any", b"x")


def test_a_mechanism_that_the_listener_does_not_offer(over: Callable[..., Config]) -> None:
    config = over(SASL_PLAINTEXT, **login("PLAIN"))
    with Admin(**config) as admin, pytest.raises(AuthenticationError) as caught:
        admin.list_topics()
    assert caught.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert "it has SCRAM-SHA-256, SCRAM-SHA-512" in caught.value.message


def test_certificates_that_are_not_trusted(
    over: Callable[..., Config], certificates: Certificates
) -> None:
    stranger = over(SSL, ssl_truststore_location=str(certificates.stranger))
    unknown = "not from an authority that this client trusts"
    assert unknown in tls_failure(stranger)
    assert unknown in tls_failure(stranger | {"ssl_endpoint_identification_algorithm": ""})
    assert "is for other names" in tls_failure(over(MISNAMED))
    with Admin(**over(MISNAMED, ssl_endpoint_identification_algorithm="")) as admin:
        admin.list_topics()


def test_a_certificate_is_asked_for(over: Callable[..., Config]) -> None:
    # With TLS 1.3 the broker's complaint and the first request may cross; the hint is the same.
    with (
        Admin(**over(MUTUAL), default_api_timeout_ms=60_000, request_timeout_ms=30_000) as admin,
        pytest.raises(KafkaError, match=r"ssl\.keystore\.location"),
    ):
        admin.list_topics()
    said = tls_failure(over(MUTUAL, ssl_enabled_protocols="TLSv1.2"))
    assert "ssl.keystore.location" in said


def tls_failure(config: Config) -> str:
    with Producer(**config, **FOREVER) as producer, pytest.raises(SslAuthenticationError) as caught:
        producer.send("any", b"x")
    assert not caught.value.retriable
    return caught.value.message


def test_the_wrong_protocol_is_recognised(kafka: ApacheKafka, over: Callable[..., Config]) -> None:
    plain_on_tls: Config = {"bootstrap_servers": kafka.address(SSL)}
    assert "set security.protocol=SSL" in tls_failure(plain_on_tls)
    tls_on_plain = over(SSL, bootstrap_servers=kafka.bootstrap)
    assert "security.protocol=PLAINTEXT" in first_failure(tls_on_plain)
    no_login: Config = {"bootstrap_servers": kafka.address(SASL_PLAINTEXT)}
    assert "security.protocol=SASL_PLAINTEXT" in first_failure(no_login)
    config = over(SASL_PLAINTEXT, bootstrap_servers=kafka.bootstrap, **login("PLAIN"))
    with Admin(**config) as admin, pytest.raises(AuthenticationError, match="has no login"):
        admin.list_topics()


def first_failure(config: Config) -> str:
    """A broker that restarts looks the same, so calls are tried again; starting is not."""

    async def start() -> str:
        admin = AsyncAdmin(**config)
        try:
            with pytest.raises(KafkaError) as caught:
                await admin.start()
        finally:
            await admin.close()
        assert caught.value.retriable
        return caught.value.message

    return asyncio.run(start())


# Logins that run out


def test_nothing_is_lost_while_logins_are_renewed(
    over: Callable[..., Config], caplog: pytest.LogCaptureFixture
) -> None:
    config = over(EXPIRING, **login("SCRAM-SHA-256"))
    topic = f"secured-{uuid.uuid4().hex[:12]}"
    caplog.set_level(logging.DEBUG, "moldau.client")
    with Admin(**config) as admin:
        admin.create_topics([NewTopic(topic)])[0].get()
    caplog.clear()
    deliveries: list[Delivery] = []
    seen: list[int] = []
    with (
        Producer(**config) as producer,
        Consumer(**config, group_id=topic, auto_offset_reset="earliest") as consumer,
    ):
        consumer.subscribe([topic])
        while len(renewals(caplog)) < 8 or len(seen) < len(deliveries):
            if len(renewals(caplog)) < 8:
                number = len(deliveries)
                deliveries += [
                    producer.send(topic, b"%d" % each) for each in range(number, number + 20)
                ]
            seen += [int(record.value) for record in consumer.poll(timeout=0.02).records()]
        offsets = [delivery.result(60).offset for delivery in deliveries]
    assert offsets == seen == list(range(len(deliveries)))


def renewals(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if "anew" in record.message]


def test_a_user_who_is_deleted_is_told(kafka: ApacheKafka, over: Callable[..., Config]) -> None:
    user = f"user-{uuid.uuid4().hex[:8]}"
    add_user(kafka, user, "SCRAM-SHA-256")
    config = over(EXPIRING, **login("SCRAM-SHA-256", user=user))
    topic = f"secured-{uuid.uuid4().hex[:12]}"
    with (
        Producer(**config, **FOREVER) as producer,
        Consumer(**config, auto_offset_reset="earliest") as consumer,
        Admin(bootstrap_servers=kafka.bootstrap) as admin,
    ):
        admin.create_topics([NewTopic(topic)])[0].get()
        producer.send(topic, b"x").result(60)
        consumer.assign([TopicPartition(topic, 0)])
        assert len(consumer.consume_batch(1, timeout=60)) == 1
        (described,) = admin.describe_user_scram_credentials([user])
        assert described.get() == (ScramCredential("SCRAM-SHA-256", 4096),)
        admin.alter_user_scram_credentials([ScramDeletion(user, "SCRAM-SHA-256")])[0].get()
        with pytest.raises(AuthenticationError):
            read_forever(consumer)
        with pytest.raises(AuthenticationError):
            send_forever(producer, topic)


def send_forever(producer: Producer, topic: str) -> None:
    while True:
        producer.send(topic, b"y").result(1200)


# Commands


def test_commands_take_the_file_of_kafkas_tools(
    kafka: ApacheKafka,
    certificates: Certificates,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quoted = PASSWORD.replace('"', r"\\\"")
    file = tmp_path / "client.properties"
    text = (
        f"bootstrap.servers={kafka.address(SASL_SSL)}\n"
        "security.protocol=SASL_SSL\n"
        f"ssl.truststore.location={certificates.authority}\n"
        "ssl.truststore.type=PEM\n"
        "group.id=of-another-tool\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        f'  username="{USER}" password="{quoted}";\n'
    )
    file.write_text(text)
    moldau = CommandLine("", capsys)
    topic = f"secured-{uuid.uuid4().hex[:12]}"
    moldau("topic", "create", topic, "--command-config", str(file))
    moldau("produce", topic, "hello", "--command-config", str(file))
    monkeypatch.setenv("MOLDAU_CLIENT_CONFIG", str(file))
    assert moldau("consume", topic, "--max-messages", "1").out == "hello\n"
    monkeypatch.delenv("MOLDAU_CLIENT_CONFIG")
    # What is said on the command line counts more than the file.
    refused = moldau(
        "topic", "list", "-b", kafka.bootstrap, "--command-config", str(file), "--timeout", "10",
        code=3,
    )  # fmt: skip
    assert "security.protocol=PLAINTEXT" in refused.err
    file.write_text(text.replace(quoted, "wrong-password"))
    refused = moldau("topic", "list", "--command-config", str(file), code=1)
    assert "refuses the login" in refused.err
    assert "wrong-password" not in refused.err
    moldau("topic", "list", "--command-config", str(tmp_path / "nothing"), code=2)
