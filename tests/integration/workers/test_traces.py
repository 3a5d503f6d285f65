"""One turn is followed from the gateway to the commit, over processes."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from storage import migrate
from storage.engine import open_database
from tests.support.observing.waiting import wait_until
from tests.support.programs.processes import Processes
from tests.support.sessions.gateways import rows_of

CANARY = "xylophone-canary"
UP = "import sys; from afterturn.cli import main; sys.argv[0] = 'afterturn'; main()"
GATEWAY = f"""
import os
from afterturn.telemetry import traces
from producers import Gateway
from tests.support.sessions.conversations import turn
with traces(os.environ, service="gateway"), Gateway() as gateway:
    session = gateway.open_session("s", context_window=128_000)
    for number in range(6):
        said = turn(number)
        said[0]["content"] += " {CANARY}"
        gateway.finalize_turn(session, said, event_id=f"event-{{number}}")
"""


@dataclass(slots=True)
class Collector:
    """Takes spans as a collector of OpenTelemetry does, over HTTP."""

    url: str = ""
    raw: list[bytes] = field(default_factory=list)

    def spans(self) -> list[dict[str, Any]]:
        """Return every span so far, with the name of its service."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )

        found = []
        for body in self.raw:
            request = ExportTraceServiceRequest()
            request.ParseFromString(body)
            for resource in request.resource_spans:
                facts = {one.key: one.value.string_value for one in resource.resource.attributes}
                found += [
                    {
                        "service": facts["service.name"],
                        "name": one.name,
                        "trace": one.trace_id.hex(),
                        "id": one.span_id.hex(),
                        "parent": one.parent_span_id.hex(),
                        "event_id": _text(one, "afterturn.event_id"),
                        "error": one.status.code == 2,
                    }
                    for scope in resource.scope_spans
                    for one in scope.spans
                ]
        return found


def _text(span: Any, name: str) -> str:
    return next((one.value.string_value for one in span.attributes if one.key == name), "")


@pytest.fixture
def collector() -> Iterator[Collector]:
    collected = Collector()

    class Take(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            zipped = self.headers.get("Content-Encoding") == "gzip"
            collected.raw.append(gzip.decompress(body) if zipped else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_facts: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Take)
    collected.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield collected
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_turn_is_one_trace_from_the_gateway_to_the_commit(
    collector: Collector, processes: Processes, tmp_path: Path, sqlite_url: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "compression": {
                    "protect_last_n": 4,
                    "threshold_tokens": 3000,
                    "micro_compact_min_tokens": 300,
                }
            }
        )
    )
    env = {
        "DATABASE_URL": sqlite_url,
        "AFTERTURN_CONFIG": str(config),
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
    }
    gateway = processes.python("-c", GATEWAY, env=env)
    assert gateway.wait() == 0, gateway.output
    worker = processes.python(
        "-c", UP, "up", "--log-level", "info", "--log-format", "json", env=env
    )
    worker.wait_for("Ready.")
    database = open_database(sqlite_url)
    migrate.ensure(database)
    wait_until(
        lambda: (
            not rows_of(database, "SELECT 1 FROM jobs WHERE state <> 'done'")
            and bool(rows_of(database, "SELECT 1 FROM attempts WHERE outcome = 'absorbed'"))
        ),
        "everything is worked",
    )
    database.close()
    worker.terminate()
    assert worker.wait() == 0, worker.output

    spans = {span["id"]: span for span in collector.spans()}
    assert not any(span["error"] for span in spans.values())
    commits = [span for span in spans.values() if span["name"] == "afterturn.commit"]
    assert commits
    chain = []
    one: dict[str, Any] | None = commits[0]
    while one is not None:
        chain.append((one["service"], one["name"]))
        assert one["trace"] == commits[0]["trace"]
        before, one = one, spans.get(one["parent"])
    assert chain == [
        ("afterturn", "afterturn.commit"),
        ("afterturn", "afterturn.job.micro"),
        ("afterturn", "afterturn.job.turn"),
        ("gateway", "afterturn.store"),
    ]
    assert before["event_id"] == "event-5"
    # A line of the log leads to the trace.
    assert f'"trace_id": "{commits[0]["trace"]}"' in worker.output
    assert not any(CANARY.encode() in body for body in collector.raw)


def test_an_error_is_in_a_trace_by_its_class_alone(
    collector: Collector, processes: Processes
) -> None:
    program = f"""
import os
from afterturn.telemetry import traces
from workers.telemetry.tracing import span
with traces(os.environ, service="x"):
    try:
        with span("job.turn", run="1.1"):
            raise KeyError("{CANARY}")
    except KeyError:
        pass
"""
    done = processes.python("-c", program, env={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    assert done.wait() == 0, done.output
    [span] = collector.spans()
    assert span["error"]
    assert CANARY.encode() not in collector.raw[0]
    assert b"KeyError" in collector.raw[0]


def test_no_process_traces_unless_asked_to(processes: Processes, sqlite_url: str) -> None:
    program = """
import sys
from producers import Gateway
from workers.telemetry.tracing import carrier, trace_id
with Gateway() as gateway:
    gateway.finalize_turn(gateway.open_session("s"), [{"role": "user", "content": "x"}])
assert carrier() == {} and trace_id() is None
assert "opentelemetry.sdk" not in sys.modules
"""
    done = processes.python("-c", program, env={"DATABASE_URL": sqlite_url})
    assert done.wait() == 0, done.output
    database = open_database(sqlite_url)
    [(correlation,)] = rows_of(database, "SELECT correlation FROM jobs")
    database.close()
    assert re.fullmatch(r'\{"event": "[0-9a-f]{32}"\}', correlation)


def test_without_opentelemetry_everything_works_and_asking_for_traces_is_answered(
    processes: Processes, sqlite_url: str
) -> None:
    hidden = "import sys; sys.modules['opentelemetry'] = None\n"
    program = """
from producers import Gateway
from workers.telemetry.tracing import INSTALLED, carrier, trace_id
assert not INSTALLED and carrier() == {} and trace_id() is None
with Gateway() as gateway:
    gateway.finalize_turn(gateway.open_session("s"), [{"role": "user", "content": "x"}])
"""
    works = processes.python("-c", hidden + program, env={"DATABASE_URL": sqlite_url})
    assert works.wait() == 0, works.output
    env = {"DATABASE_URL": sqlite_url, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    refused = processes.python("-c", hidden + UP, "up", env=env)
    assert refused.wait() == 3
    assert "pip install afterturn[traces]" in refused.output
