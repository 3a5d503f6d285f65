"""What a gateway does about an error of its provider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from producers import ApiErrorKind, CompressionStuck, Gateway, Status
from storage.conversations import sessions
from storage.engine import Database
from storage.guards import GuardName
from tests.support.sessions.gateways import contents
from tests.support.sessions.small_gateways import LONG, batch_jobs, grown, hold, small_gateway
from tests.support.workers.scripted_worker import Ends, Waits, compacts, scripted

TOO_LARGE = {"status": 413, "message": "Request Entity Too Large"}
OVERFLOW = {
    "status": 400,
    "code": "context_length_exceeded",
    "message": "This model's maximum context length is 8192 tokens. However, your messages "
    "resulted in 9001 tokens. Please reduce the length of the messages.",
}
LONG_CONTEXT = {
    "status": 429,
    "message": "Extra usage is required for long context requests.",
}
OUTPUT = {
    "status": 400,
    "message": "This model's maximum context length is 128000 tokens. However, you requested "
    "140000 tokens (12000 in the messages, 128000 in the completion). Please reduce the length "
    "of the messages or completion.",
}
OUTPUT_CAP = {
    "status": 400,
    "message": "max_tokens is too large: 100000. This model supports at most 16384 completion "
    "tokens, whereas you provided 100000.",
}


@pytest.fixture
def gateway(database: Database) -> Iterator[Gateway]:
    with small_gateway(database, threshold_tokens=None) as opened:
        yield opened


def declared(database: Database, key: int) -> int | None:
    with database.read() as connection:
        return sessions.fetch(connection, key).declared_window


@pytest.mark.parametrize(
    ("error", "kind", "trigger"),
    [
        (TOO_LARGE, ApiErrorKind.PAYLOAD_TOO_LARGE, "payload_too_large"),
        (LONG_CONTEXT, ApiErrorKind.LONG_CONTEXT_RATE_LIMIT, "long_context_rate_limit"),
        (OUTPUT, ApiErrorKind.OUTPUT_TOO_LARGE, "output_too_large"),
        (OVERFLOW, ApiErrorKind.CONTEXT_OVERFLOW, "context_overflow"),
    ],
)
def test_an_error_of_each_kind_is_answered_by_a_pass_past_every_guard(
    gateway: Gateway, database: Database, error: Any, kind: ApiErrorKind, trigger: str
) -> None:
    session = grown(gateway, 7000)
    hold(database, session, GuardName.COOLDOWN, hold_ms=600_000)
    hold(database, session, GuardName.POOR_PASSES, count=5, hold_ms=600_000)
    with scripted(database, compacts(5, 4000)) as worker:
        verdict = gateway.report_error(session, error, wait=LONG)
    assert (verdict.recognised, verdict.kind, verdict.retry) == (True, kind, True)
    assert verdict.messages_after == 5
    assert [claim.trigger for claim in worker.claims] == [trigger]


def test_the_exception_of_the_openai_client_is_taken_as_it_is(
    gateway: Gateway, database: Database
) -> None:
    session = grown(gateway, 7000)
    request = httpx2.Request("POST", "http://localhost/v1/chat/completions")
    body = {"error": {"message": OVERFLOW["message"], "code": OVERFLOW["code"], "type": None}}
    response = httpx2.Response(400, request=request, json=body)
    error = openai.BadRequestError("Error code: 400", response=response, body=body["error"])
    verdict = gateway.report_error(session, error)
    assert verdict.kind is ApiErrorKind.CONTEXT_OVERFLOW
    assert verdict.pending
    assert declared(database, session.key) == 8192


@pytest.mark.parametrize(
    "error",
    [
        {"status": 400, "message": "Invalid tool call arguments: not valid JSON"},
        {"status": 429, "message": "Rate limit reached for requests per minute"},
        {"status": 401, "message": "Incorrect API key provided"},
        {"status": 500, "message": "Internal server error"},
        ValueError("something else"),
        None,
    ],
)
def test_any_other_error_is_the_gateways_own(
    gateway: Gateway, database: Database, error: Any
) -> None:
    session = grown(gateway, 7000)
    before = contents(database)
    verdict = gateway.report_error(session, error, wait=LONG)
    assert (verdict.recognised, verdict.kind, verdict.retry) == (False, None, False)
    assert verdict.status is Status.NOT_RECOGNISED
    assert contents(database) == before


class TestTheWindow:
    def test_is_what_the_provider_said_for_this_and_later_requests(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 7000)
        assert gateway.preflight(session).go
        verdict = gateway.report_error(session, OVERFLOW)
        assert verdict.window == 8192
        assert gateway.open_session("s").threshold == int(8192 * 0.85)

    def test_is_never_raised_by_an_error(self, gateway: Gateway, database: Database) -> None:
        session = gateway.open_session("s", context_window=4096)
        verdict = gateway.report_error(session, OVERFLOW)
        assert (verdict.window, declared(database, session.key)) == (4096, None)

    def test_drops_to_200_000_where_a_longer_one_is_not_paid_for(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = gateway.open_session("s", context_window=1_000_000)
        verdict = gateway.report_error(session, LONG_CONTEXT)
        assert verdict.window == 200_000
        # A model that has it again is believed.
        gateway.set_model(session, "other", context_window=1_000_000)
        assert declared(database, session.key) is None

    def test_is_kept_where_the_switch_stops_the_pass(self, database: Database) -> None:
        with small_gateway(database, enabled=False) as gateway:
            session = grown(gateway, 7000)
            verdict = gateway.report_error(session, OVERFLOW, wait=LONG)
        assert (verdict.recognised, verdict.retry, verdict.window) == (True, False, 8192)
        assert verdict.status is Status.SUPPRESSED
        assert "switched off" in verdict.reason
        assert batch_jobs(database, session) == []


class TestRetrying:
    def test_is_pointless_when_the_view_is_what_it_was(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 7000)
        with scripted(database, Ends("nothing_due")):
            assert not gateway.report_error(session, OVERFLOW, wait=LONG).retry

    def test_is_worth_it_for_fewer_rows_alone(self, gateway: Gateway, database: Database) -> None:
        session = grown(gateway, 7000)
        with scripted(database, compacts(1, 10)):
            verdict = gateway.report_error(session, TOO_LARGE, wait=LONG)
        assert verdict.retry
        assert verdict.stuck

    def test_is_not_advised_before_the_pass_is_done(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 7000)
        assert not gateway.report_error(session, TOO_LARGE).retry
        with scripted(database, Waits(600_000)):
            verdict = gateway.report_error(session, TOO_LARGE, wait=LONG)
        assert (verdict.retry, verdict.status) == (False, Status.POSTPONED)
        # The same error again does not cut the wait short and asks for nothing new.
        assert len(batch_jobs(database, session)) == 1

    def test_with_less_output_needs_no_smaller_view(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 7000)
        verdict = gateway.report_error(session, OUTPUT_CAP, wait=LONG)
        assert (verdict.kind, verdict.retry) == (ApiErrorKind.OUTPUT_TOO_LARGE, True)
        assert verdict.max_output == 16_384
        assert batch_jobs(database, session) == []

    def test_is_given_up_when_a_stuck_session_exceeds_its_window(
        self, gateway: Gateway, database: Database
    ) -> None:
        session = grown(gateway, 10_000)
        with scripted(database, compacts(1, 10)), pytest.raises(CompressionStuck):
            gateway.report_error(session, OVERFLOW, wait=LONG)
