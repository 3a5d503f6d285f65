"""Asking the models of a chain in their order (ENGINE.md §10, model chain)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from workers.gate import Blocked, Gate, Permit
from workers.prompts import chat_messages
from workers.rates import Limits
from workers.summarising import Reply, Stopped, Summariser, SummariserError, SummaryRequest
from workers.telemetry import tracing
from workers.telemetry.log_lines import Field, LogEvent, log_event
from workers.tokens import estimate_message

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Link:
    """A model of the chain. `route` is its name in records and logs; `limits` are None for one
    that no gate holds back, the built-in summariser. A call takes `longest_seconds` at most,
    where the request does not say otherwise."""

    summariser: Summariser
    route: str
    limits: Limits | None = None
    longest_seconds: float = 600.0


def ask_chain(
    chain: Sequence[Link], request: SummaryRequest, stop: Callable[[], bool], gate: Gate | None
) -> Reply:
    """Give the answer of the first model of `chain` that may be asked and has one.

    Every failure leads to the next model, a refused key too (faults F106). `requests` of the
    reply, or of the error, counts those to all models. Raises `SummariserError`: where nobody was
    asked one of class BREAKER_OPEN or LIMIT_REACHED with the shortest wait; else the last that a
    repetition may mend, or the last if none is, and its detail names the model (faults F110).
    Raises `Stopped`, and `StorageError` where the gate cannot tell.
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


def why_closed(chain: Sequence[Link], gate: Gate | None) -> SummariserError | None:
    """The error that `ask_chain` would raise now for want of a model that may be asked; None
    where one may. A look, so that nobody writes a long prompt in vain."""
    blocks: list[tuple[Link, Blocked]] = []
    for link in chain:
        blocked = gate.look(link.route, link.limits) if gate and link.limits is not None else None
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
        # Whatever ended the wait, the next one may find out in its place.
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
