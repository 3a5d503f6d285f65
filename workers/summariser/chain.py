"""The configured chain of models, called in order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock

from workers.conversation.tokens import estimate_message
from workers.settings import Settings
from workers.settings.file import SettingsSource
from workers.summariser.contract import (
    ErrorClass,
    Reply,
    Stopped,
    Summariser,
    SummariserError,
    SummaryRequest,
)
from workers.summariser.endpoints import (
    Endpoint,
    EndpointError,
    chain_fingerprint,
    resolve_chain,
    route_name,
)
from workers.summariser.extractive.local import LocalSummariser
from workers.summariser.gate import Blocked, Gate, Permit
from workers.summariser.prompts import chat_messages
from workers.summariser.rate_limits import Limits
from workers.telemetry import tracing
from workers.telemetry.log_lines import Field, LogEvent, log_event

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Link:
    """A model of the chain.

    `route` is its name in records and logs; `limits` are None for the built-in summariser, which no
    gate restricts. A call takes `longest_seconds` at most, unless the request says otherwise.
    """

    summariser: Summariser
    route: str
    limits: Limits | None = None
    longest_seconds: float = 600.0


def ask_chain(
    chain: Sequence[Link], request: SummaryRequest, stop: Callable[[], bool], gate: Gate | None
) -> Reply:
    """Return the answer of the first model of `chain` that may be called and answers.

    Every failure leads to the next model, also a refused key. `requests` of the reply, or of the
    error, counts those to all models.

    Raises:
        SummariserError: Of class BREAKER_OPEN or LIMIT_REACHED with the shortest wait where no
            model was called; else the last error that a repetition may solve, or the last one if
            there is none. Its detail names the model.
        Stopped: `stop()` returned true.
        StorageError: The gate cannot be read.
    """
    tokens = _prompt_tokens(request) if gate else 0
    failures: list[tuple[Link, SummariserError]] = []
    blocks: list[tuple[Link, Blocked]] = []
    sent = 0
    for link in chain:
        if stop():
            raise Stopped("not asked")
        permit = _admit(gate, link, request, tokens)
        if isinstance(permit, Blocked):
            blocks.append((link, permit))
            continue
        try:
            with tracing.span("model", endpoint=link.route, task=request.task.value) as span:
                reply = _ask(link, request, stop, gate, permit)
                span.record(
                    prompt_tokens=reply.prompt_tokens, completion_tokens=reply.completion_tokens
                )
        except SummariserError as error:
            if len(chain) > 1:
                facts: dict[str, Field] = {
                    "endpoint": link.route,
                    "error_class": error.error_class.value,
                    "detail": error.detail or None,
                }
                log_event(log, LogEvent.MODEL_FAILED, facts, level=logging.WARNING)
            failures.append((link, error))
            sent += error.requests
        else:
            return replace(reply, requests=sent + reply.requests)
    raise _failure(failures, sent) if failures else _wait(blocks)


def check_breaker(chain: Sequence[Link], gate: Gate | None) -> SummariserError | None:
    """Return the error that `ask_chain` would raise now because no model may be called, else None.

    Occupies no place, and saves building a long prompt that cannot be sent.
    """
    blocks: list[tuple[Link, Blocked]] = []
    for link in chain:
        blocked = gate.peek(link.route, link.limits) if gate and link.limits is not None else None
        if blocked is None:
            return None
        blocks.append((link, blocked))
    return _wait(blocks)


def _admit(
    gate: Gate | None, link: Link, request: SummaryRequest, tokens: int
) -> Permit | Blocked | None:
    if gate is None or link.limits is None:
        return None
    total = request.total_seconds
    return gate.admit(
        link.route,
        link.limits,
        tokens=tokens,
        longest_seconds=link.longest_seconds if total is None else total,
    )


def _ask(
    link: Link,
    request: SummaryRequest,
    stop: Callable[[], bool],
    gate: Gate | None,
    permit: Permit | None,
) -> Reply:
    if gate is None or permit is None:
        return link.summariser.summarise(request, stop)
    try:
        reply = link.summariser.summarise(request, stop)
    except SummariserError as error:
        gate.failed(permit, error)
        raise
    except BaseException:
        # The state of the endpoint is still unknown, so the next request may be the probe.
        gate.given_up(permit)
        raise
    gate.answered(permit, used_tokens=_used_tokens(reply))
    return reply


def _failure(failures: Sequence[tuple[Link, SummariserError]], sent: int) -> SummariserError:
    mendable = [failure for failure in failures if not failure[1].error_class.permanent]
    link, error = (mendable or failures)[-1]
    return SummariserError(
        error.error_class,
        f"{link.route}: {error.detail}" if error.detail else link.route,
        retry_after=error.retry_after,
        requests=sent,
    )


def _wait(blocks: Sequence[tuple[Link, Blocked]]) -> SummariserError:
    link, first = min(blocks, key=lambda block: block[1].wait_ms)
    return SummariserError(first.error_class, link.route, retry_after=first.wait_ms / 1000)


def _prompt_tokens(request: SummaryRequest) -> int:
    return sum(estimate_message(message) for message in chat_messages(request))


def _used_tokens(reply: Reply) -> int | None:
    if reply.prompt_tokens is None:
        return None
    return reply.prompt_tokens + (reply.completion_tokens or 0)


class FollowingSummariser:
    """The configured models in their order, or the local summariser where there is none.

    Follows changes of the configuration between calls. `secrets` may hold the models' keys. The
    `gate` admits each request to a model; None admits all.
    """

    def __init__(
        self, settings: SettingsSource, secrets: Mapping[str, str], gate: Gate | None = None
    ) -> None:
        self._settings = settings
        self._secrets = secrets
        self._gate = gate
        self._lock = Lock()
        self._built_for: object = None
        self._chain: tuple[Link, ...] = ()
        self._retired: list[Link] = []

    @property
    def model(self) -> str:
        """The name of the first model, `local` for the built-in one, `none` without its key."""
        try:
            return self._current()[0].summariser.model
        except SummariserError:
            return "none"

    @property
    def fingerprint(self) -> int:
        """The fingerprint of the configured chain, which gateways compute without a client."""
        return chain_fingerprint(self._settings.current().auxiliary.compression)

    def room(self, summary_tokens: int) -> int:
        """Return the room of the smallest window of the chain, so that every model can answer."""
        try:
            return min(link.summariser.room(summary_tokens) for link in self._current())
        except SummariserError:
            return LocalSummariser().room(summary_tokens)

    def summarise(self, request: SummaryRequest, stop: Callable[[], bool]) -> Reply:
        """Answer with the first model of the chain that can; see `ask_chain`."""
        return ask_chain(self._current(), request, stop, self._gate)

    def check_breaker(self) -> SummariserError | None:
        """Return the reason why no model may be called now; None where one may."""
        try:
            return check_breaker(self._current(), self._gate)
        except SummariserError:
            return None

    def close(self) -> None:
        """Close every model's client."""
        with self._lock:
            for link in (*self._chain, *self._retired):
                link.summariser.close()
            self._chain, self._retired, self._built_for = (), [], None

    def _current(self) -> tuple[Link, ...]:
        settings = self._settings.current()
        wanted = (
            settings.auxiliary,
            settings.compression.context_timeout_seconds,
            settings.compression.context_total_ceiling_seconds,
        )
        with self._lock:
            if self._built_for != wanted:
                chain = _links(settings, self._secrets)
                # Calls of other threads may still use the old ones, so they close at the end.
                self._retired.extend(self._chain)
                self._chain, self._built_for = chain, wanted
            return self._chain


def build_chain(settings: Settings, secrets: Mapping[str, str]) -> tuple[Summariser, ...]:
    """Make the summarisers that `settings` name, in the order in which they are called.

    Raises `SummariserError` of class AUTH where a provider's key is missing or unusable.
    """
    return tuple(link.summariser for link in _links(settings, secrets))


def _links(settings: Settings, secrets: Mapping[str, str]) -> tuple[Link, ...]:
    try:
        chain = resolve_chain(settings.auxiliary.compression, secrets)
        return tuple(_link(endpoint, settings) for endpoint in chain)
    except EndpointError as error:
        raise SummariserError(ErrorClass.AUTH, str(error), requests=0) from error
    except ValueError as error:
        # A key that no header can carry, or an invalid URL.
        detail = "the model's URL or key cannot be used"
        raise SummariserError(ErrorClass.AUTH, detail, requests=0) from error


def _link(endpoint: Endpoint | None, settings: Settings) -> Link:
    summariser = _summariser(endpoint, settings)
    if endpoint is None:
        return Link(summariser, summariser.model)
    return Link(
        summariser,
        route_name(endpoint.model, endpoint.base_url),
        Limits(endpoint.requests_per_minute, endpoint.tokens_per_minute),
        settings.compression.context_total_ceiling_seconds,
    )


def _summariser(endpoint: Endpoint | None, settings: Settings) -> Summariser:
    if endpoint is None:
        return LocalSummariser()
    # Takes half a second and 48 MB, so only processes that call a model load it.
    from workers.summariser.client import OpenAISummariser  # noqa: PLC0415

    compression = settings.compression
    return OpenAISummariser(
        model=endpoint.model,
        base_url=endpoint.base_url,
        api_key=endpoint.api_key.get_secret_value() if endpoint.api_key else "",
        first_byte_seconds=endpoint.timeout,
        idle_seconds=compression.context_timeout_seconds,
        total_seconds=compression.context_total_ceiling_seconds,
        extra_body=endpoint.extra_body,
        context_length=endpoint.context_length,
    )
