"""A worker outlives a connection that cannot be closed."""

from __future__ import annotations

from typing import Any

import pytest
from kombu import Connection

from tasks.application import make_app
from tasks.lifecycle import Consumer, outliving


def _no_context() -> Any:
    raise AssertionError("no job runs here")


def test_a_worker_consumes_by_it() -> None:
    app = make_app("redis://localhost:1/0", _no_context)
    assert app.conf.worker_consumer == "tasks.lifecycle:Consumer"
    assert issubclass(app.subclass_with_self(app.conf.worker_consumer, keep_reduce=True), Consumer)


@pytest.mark.filterwarnings("ignore::celery.exceptions.CPendingDeprecationWarning")
def test_a_lost_connection_that_cannot_be_closed_is_let_go(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # What kombu raised when Redis went away a second time: see the docstring of the class.
    def close(_: Connection) -> None:
        raise AttributeError("'NoneType' object has no attribute 'hostname'")

    consumer = Consumer.__new__(Consumer)
    consumer.app = make_app(None, _no_context)
    consumer.connection = Connection("memory://localhost")
    with monkeypatch.context() as broken:
        broken.setattr(Connection, "close", close)
        consumer.on_connection_error_after_connected(ConnectionError("gone"))
    assert consumer.connection is None
    assert "could not be closed (AttributeError)" in caplog.text


def test_a_message_that_is_acknowledged_over_a_connection_that_is_gone_is_a_lost_connection(
    redis_url: str,
) -> None:
    with Connection(redis_url) as connection:
        queue = connection.SimpleQueue("consumer-test")
        queue.put({"job_id": 1})
        message = queue.get(timeout=10)
        transport = connection.transport
    # What is left when it was lost, and lost again while it was closed.
    transport.client = None
    channel: Any = message.channel
    channel._pool = None

    def loop(_: object) -> None:
        channel.qos.ack(message.delivery_tag)

    with pytest.raises(AttributeError):
        loop(None)
    with pytest.raises(ConnectionResetError) as lost:
        outliving(loop)(None)
    assert isinstance(lost.value, connection.connection_errors)


def test_an_error_of_anybody_else_stays_what_it_is() -> None:
    def loop() -> None:
        raise AttributeError("ours")

    with pytest.raises(AttributeError, match="ours"):
        outliving(loop)()
