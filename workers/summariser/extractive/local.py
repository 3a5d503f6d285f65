"""The built-in summariser, which serves when no model is configured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from workers.redaction import redact
from workers.summariser.answers import accept
from workers.summariser.contract import Reply, Stopped, SummariserError, SummaryRequest, Task
from workers.summariser.endpoints import SummariserSettings, chain_fingerprint
from workers.summariser.extractive.condensing import Lines, condensed
from workers.summariser.extractive.local_sections import section_texts
from workers.summariser.extractive.steps import extracts, quoted
from workers.tokens import estimate_text

_DEFRAG_SHARE = 0.6


class LocalSummariser:
    """Writes summaries without a model, a network or chance: the same request, the same text.

    The rolling summary is a list of lines: those of the previous one and one for each new step.
    It never takes more than `target_tokens` and always less than it replaces, so it stays flat
    however long a session gets; the oldest lines are condensed first. A defrag comes to at most
    60 % of the previous size. A structured summary is made the same way, section by section.
    """

    model = "local"

    @property
    def fingerprint(self) -> int:
        """That of a configuration that names no model."""
        return chain_fingerprint(SummariserSettings())

    def room(self, summary_tokens: int) -> int:  # noqa: ARG002 - signature of the contract
        """As much as any (ENGINE.md §6.3): nothing of it shares a window."""
        return 160_000

    def summarise(self, request: SummaryRequest, stop: Callable[[], bool]) -> Reply:
        """Answer `request` at once with what will be accepted.

        Raises `Stopped` when `stop()` is true already, and `SummariserError` with TOO_LARGE where
        the headings of a structured summary are as large as what it would replace.
        """
        if stop():
            raise Stopped
        candidates = section_texts if request.task.in_sections else _candidates
        return Reply(text=_best(candidates(request), request), model=self.model)

    def close(self) -> None:
        """Nothing is held open."""


def _candidates(request: SummaryRequest) -> Iterator[str]:
    """Texts for `request`, the most readable first.

    Lines in a script that the user does not write, or that resemble turns, are acceptable in
    backticks; a bare count is acceptable where there is room for nothing else, one of two if the
    other stands in the input.
    """
    previous = Lines.of(request.previous)
    fresh = [redact(line) for line in extracts(request.passages)]
    if request.task is Task.ABSORB and set(fresh) <= set(previous.lines):
        # Nothing new was said. It still was a step, and an unchanged summary is an echo.
        previous = replace(previous, dropped=previous.dropped + 1)
    budget = _budget(request)
    yield _written(previous, fresh, budget)
    yield _written(Lines(_all_quoted(previous.lines), previous.dropped), _all_quoted(fresh), budget)
    steps = previous.dropped + len(previous.lines) + max(1, len(request.passages))
    yield str(Lines((), steps))
    yield str(Lines((), steps + 1))


def _written(previous: Lines, fresh: Iterable[str], budget: int) -> str:
    new = tuple(fresh)
    return str(condensed(previous.then(new), budget, fresh=len(new)))


def _all_quoted(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(quoted(line) for line in lines)


def _budget(request: SummaryRequest) -> int:
    budget = min(request.target_tokens, request.replaced_tokens - 1)
    if request.task is Task.DEFRAG:
        budget = min(budget, int(estimate_text(request.previous) * _DEFRAG_SHARE))
    return budget


def _best(candidates: Iterator[str], request: SummaryRequest) -> str:
    """The first candidate that will be accepted, else the last."""
    text = ""
    for text in candidates:
        try:
            return accept(text, request)
        except SummariserError:
            continue
    return text
