"""Redis and PostgreSQL over TLS, by URL alone: who cannot prove its name is not talked to."""

from __future__ import annotations

import socket
import ssl
from http.client import BadStatusLine, HTTPConnection, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from celery import Celery
from kombu.exceptions import OperationalError
from prometheus_client import CollectorRegistry

from afterturn.credentials import Place
from afterturn.exits import CommandError
from afterturn.metrics.server import MetricsServer, tls_context
from producers import Gateway
from storage import migrate
from storage.engine import open_database
from storage.errors import DatabaseUnavailable
from storage.signals import Signal, SignalKind
from tasks.publishing import publish_signals
from tasks.settings import celery_settings, verified
from tests.support.servers.tls import Certificates, TlsProxy, make_certificates, makers
from tests.support.sessions.gateways import user
from workers.settings import Settings

pytestmark = pytest.mark.parametrize("openssl", makers(), ids=lambda path: Path(path).name)


@pytest.fixture
def certificates(openssl: str, tmp_path: Path) -> Certificates:
    return make_certificates(openssl, tmp_path / "ours")


@pytest.fixture
def others(openssl: str, tmp_path: Path) -> Certificates:
    """Certificates of an authority that nobody of ours knows."""
    return make_certificates(openssl, tmp_path / "others")


def place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 0


def secured(url: str, port: int, host: str, query: str, scheme: str) -> str:
    parts = urlsplit(url)
    user_part = f"{parts.username}@" if parts.username else ""
    return f"{scheme}://{user_part}{host}:{port}{parts.path}?{query}"


def notifications(url: str) -> int:
    """Send a message and take it back."""
    app = Celery("tls", set_as_current=False)
    app.conf.update(celery_settings(url, notify_only=True))
    try:
        app.send_task("turns.finalize", kwargs={"job_id": 1}, queue="turns")
        with app.connection_for_read() as connection:
            queue = connection.SimpleQueue("turns")
            queue.get(timeout=5).ack()
            queue.close()
    finally:
        app.close()
    return 1


def test_notifications_go_over_tls(certificates: Certificates, redis_url: str) -> None:
    with TlsProxy(place(redis_url), certificates, postgresql=False) as proxy:
        query = f"ssl_ca_certs={certificates.authority}"
        url = secured(redis_url, proxy.port, "localhost", query, "rediss")
        assert notifications(url) == 1
        signal = Signal(1, "o", "s", SignalKind.RESET, False, {}, 0)
        assert publish_signals(url, [signal]) == 1
        assert proxy.served >= 2
        assert proxy.refused == 0


@pytest.mark.parametrize("query", ["", "ssl_ca_certs={others}"])
def test_a_redis_that_cannot_prove_its_name_is_not_talked_to(
    certificates: Certificates, others: Certificates, redis_url: str, query: str
) -> None:
    with TlsProxy(place(redis_url), certificates, postgresql=False) as proxy:
        asked = query.format(others=others.authority)
        url = secured(redis_url, proxy.port, "localhost", asked, "rediss")
        with pytest.raises(OperationalError):
            notifications(url)
        assert proxy.served == 0


def test_the_name_of_a_redis_is_checked_too(certificates: Certificates, redis_url: str) -> None:
    with TlsProxy(place(redis_url), certificates, postgresql=False) as proxy:
        query = f"ssl_ca_certs={certificates.authority}"
        url = secured(redis_url, proxy.port, "127.0.0.1", query, "rediss")
        with pytest.raises(OperationalError):
            notifications(url)


def test_only_a_url_that_says_so_is_not_verified(openssl: str) -> None:
    assert verified("rediss://h/0") == "rediss://h/0?ssl_cert_reqs=required"
    assert verified("rediss://h/0?a=b") == "rediss://h/0?a=b&ssl_cert_reqs=required"
    assert verified("rediss://h/0?ssl_cert_reqs=none") == "rediss://h/0?ssl_cert_reqs=none"
    assert verified("redis://h/0;amqp://h") == "redis://h/0;amqp://h"
    assert celery_settings("rediss://h/0")["broker_url"].endswith("=required")


def test_turns_are_stored_over_tls(certificates: Certificates, postgres_url: str) -> None:
    with TlsProxy(place(postgres_url), certificates, postgresql=True) as proxy:
        query = f"sslmode=verify-full&sslrootcert={certificates.authority}"
        url = secured(postgres_url, proxy.port, "localhost", query, "postgresql")
        database = open_database(url)
        migrate.upgrade(database)
        database.close()
        with Gateway(Settings(database_url=url)) as gateway:
            gateway.finalize_turn(gateway.open_session("s"), [user("Hi.")])
        assert proxy.served >= 2
        assert proxy.refused == 0


@pytest.mark.parametrize(
    ("host", "query"),
    [
        ("localhost", "sslmode=verify-full&sslrootcert={others}"),
        ("127.0.0.1", "sslmode=verify-full&sslrootcert={authority}"),
        ("localhost", "sslmode=disable"),
    ],
)
def test_a_postgresql_that_cannot_prove_its_name_is_not_talked_to(
    certificates: Certificates, others: Certificates, postgres_url: str, host: str, query: str
) -> None:
    with TlsProxy(place(postgres_url), certificates, postgresql=True) as proxy:
        asked = query.format(others=others.authority, authority=certificates.authority)
        database = open_database(secured(postgres_url, proxy.port, host, asked, "postgresql"))
        with pytest.raises(DatabaseUnavailable) as caught:
            migrate.upgrade(database)
        database.close()
        assert str(certificates.authority) not in str(caught.value)


def test_metrics_are_served_over_tls(certificates: Certificates) -> None:
    server = MetricsServer(
        CollectorRegistry(),
        Place("127.0.0.1", 0),
        tls=tls_context(certificates.certificate, certificates.key),
    )
    server.start()
    port = urlsplit(server.url).port
    trusting = ssl.create_default_context(cafile=certificates.authority)
    try:
        assert server.url.startswith("https://")
        connection = HTTPSConnection("localhost", port, timeout=10, context=trusting)
        connection.request("GET", "/metrics")
        assert connection.getresponse().status == 200
        connection.close()
        plain = HTTPConnection("localhost", port, timeout=10)
        plain.request("GET", "/metrics")
        with pytest.raises((BadStatusLine, ConnectionError)):
            plain.getresponse()
        plain.close()
        # A client that never shakes hands keeps nobody else waiting.
        with socket.create_connection(("localhost", port), timeout=10):
            connection.request("GET", "/metrics")
            assert connection.getresponse().status == 200
            connection.close()
    finally:
        server.close()


def test_a_certificate_and_its_key_go_together(certificates: Certificates) -> None:
    for pair in ((certificates.certificate, None), (None, certificates.key)):
        with pytest.raises(CommandError, match="go together"):
            tls_context(*pair)
    with pytest.raises(CommandError, match="cannot be used"):
        tls_context(certificates.authority, certificates.key)
