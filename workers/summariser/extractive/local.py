"""The built-in summariser, used when no model is configured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby

from workers.conversation.tokens import estimate_text
from workers.redaction import redact
from workers.summariser.answers import accept
from workers.summariser.contract import (
    ErrorClass,
    Passage,
    Reply,
    Stopped,
    SummariserError,
    SummaryRequest,
    Task,
)
from workers.summariser.endpoints import SummariserSettings, chain_fingerprint
from workers.summariser.extractive.condensing import JOINT, Lines, clip, condensed
from workers.summariser.extractive.salience import terms_of
from workers.summariser.extractive.sections import Room, Sections, SummaryLine, fitted
from workers.summariser.extractive.sentences import quoted, sentences
from workers.summariser.extractive.statements import findings
from workers.summariser.extractive.steps import SAID, as_quoted, steps
from workers.summariser.headings import Section
from workers.summariser.passages import INPUT_CHARS

_DEFRAG_SHARE = 0.6
_CLOSING_TOKENS = 60
_QUESTION_TOKENS = 40
_QUESTION = ("?", "？", "؟")
_SUMMARIES = ("part", "summary")
_QUOTED = frozenset({Section.GOAL, Section.CONSTRAINTS, Section.DECISIONS, Section.QUESTIONS})


class LocalSummariser:
    """A deterministic writer of summaries, without a model or a network.

    The rolling summary is a list of lines: those of the previous one and one for each new step.
    It never takes more than `target_tokens` and always less than it replaces, so its size stays
    constant however long a session becomes; the oldest lines are condensed first. A defrag takes at
    most 60 % of the previous size. A structured summary keeps the most salient lines of each
    section.
    """

    model = "local"

    @property
    def fingerprint(self) -> int:
        """The fingerprint of a configuration that names no model."""
        return chain_fingerprint(SummariserSettings())

    def room(self, summary_tokens: int) -> int:  # noqa: ARG002 - signature of the contract
        """Return the largest input, since there is no window to share."""
        return INPUT_CHARS

    def summarise(self, request: SummaryRequest, stop: Callable[[], bool]) -> Reply:
        """Answer `request` at once with a text that will be accepted.

        Raises `Stopped` when `stop()` is already true, and `SummariserError` with TOO_LARGE where
        the headings of a structured summary are as large as the text that it would replace.
        """
        if stop():
            raise Stopped
        candidates = _structured if request.task.in_sections else _rolling
        return Reply(text=_best(candidates(request), request), model=self.model)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _best(candidates: Iterator[str], request: SummaryRequest) -> str:
    """Return the first candidate that will be accepted, else the last."""
    text = ""
    for text in candidates:
        try:
            return accept(text, request)
        except SummariserError:
            continue
    return text


def _rolling(request: SummaryRequest) -> Iterator[str]:
    """Write rolling summaries, the most readable first.

    Lines in a script that the user does not write, or that resemble turns, are accepted in
    backticks. Where there is no room for more, a bare count is accepted; there are two, in case the
    input contains one of them.
    """
    previous = Lines.of(request.previous)
    fresh = [redact(step) for step in steps(request.passages)]
    if request.task is Task.ABSORB and set(fresh) <= set(previous.lines):
        # Nothing new happened. It still was a step, and an unchanged summary is an echo.
        previous = replace(previous, dropped=previous.dropped + 1)
    budget = min(request.target_tokens, request.replaced_tokens - 1)
    if request.task is Task.DEFRAG:
        budget = min(budget, int(estimate_text(request.previous) * _DEFRAG_SHARE))
    yield _condensed(previous, fresh, budget)
    in_quotes = Lines(tuple(map(as_quoted, previous.lines)), previous.dropped)
    yield _condensed(in_quotes, map(as_quoted, fresh), budget)
    taken = previous.dropped + len(previous.lines) + max(1, len(request.passages))
    yield str(Lines((), taken))
    yield str(Lines((), taken + 1))


def _condensed(previous: Lines, fresh: Iterable[str], budget: int) -> str:
    new = tuple(fresh)
    return str(condensed(previous.then(new), budget, fresh=len(new)))


def _structured(request: SummaryRequest) -> Iterator[str]:
    """Write structured summaries, the most readable first.

    None takes more than `target_tokens`, or than the bare headings if that is more. Lines that are
    not accepted as they are come in backticks. Where nothing else is accepted, a bare count of
    steps is left; there are several, in case the input contains some of them.
    """
    older, newer = Sections.of(request.previous), _sections_of(request)
    if not newer.steps_in_all:
        # The passages still were a step, and an unchanged summary is an echo.
        newer = replace(newer, dropped=1)
    taken = older.steps_in_all + newer.steps_in_all
    room = _room(request, estimate_text(str(Sections(dropped=taken))))
    terms = terms_of(request.focus)
    chosen = (
        fitted(
            old.then(new),
            room,
            str,
            numbered=True,
            earlier=set(old.lines) - set(new.lines),
            terms=terms,
        )
        for old, new in ((older, newer), (older.each(as_quoted), newer.each(as_quoted)))
    )
    bare = (Sections(dropped=taken + more) for more in range(len(request.passages) + 2))
    for sections in chain(chosen, bare):
        if room.holds(text := str(sections)):
            yield text


def _room(request: SummaryRequest, least: int) -> Room:
    most = request.replaced_tokens - 1
    if least > most:
        raise SummariserError(
            ErrorClass.TOO_LARGE, f"{least} tokens of headings in place of {most + 1}", requests=0
        )
    return Room(min(max(request.target_tokens, least), most))


def _sections_of(request: SummaryRequest) -> Sections:
    """Return the content of the passages; those that are summaries keep their place."""
    content = Sections()
    for is_summary, passages in groupby(request.passages, _is_summary):
        if is_summary:
            for one in passages:
                content = content.then(Sections.of(one.text))
        elif request.task is Task.BATCH:
            content = content.then(_extracted(list(passages)))
    return content


def _is_summary(one: Passage) -> bool:
    return one.label.partition(" ")[0] in _SUMMARIES


def _extracted(passages: Sequence[Passage]) -> Sections:
    """Return the content of messages, with people's words quoted so that none reads as an order."""
    lines = []
    for line in findings(passages):
        is_step = line.text.startswith(SAID)
        text = quoted(line.text) if line.section in _QUOTED and not is_step else line.text
        lines.append(replace(line, text=text))
    done = [line.text for line in lines if line.section in (Section.PROGRESS, Section.DECISIONS)]
    questions, closing = _last_statements(passages)
    lines += [SummaryLine.of(Section.QUESTIONS, text) for text in questions]
    lines += [SummaryLine.of(Section.STATE, text) for text in closing or done[-1:]]
    return Sections(tuple(replace(line, text=line.text.replace(JOINT, " ")) for line in lines))


def _last_statements(passages: Sequence[Passage]) -> tuple[list[str], list[str]]:
    """Return the agent's last questions, unless the user answered, and its last statement."""
    dialogue = [one for one in passages if one.label in ("user", "assistant")]
    for one in reversed(dialogue):
        stated = list(sentences(one.text)) if one.label == "assistant" else []
        if not stated:
            continue
        questions = [sentence for sentence in stated if sentence.endswith(_QUESTION)]
        asked = questions[-2:] if one is dialogue[-1] else []
        return (
            [redact(quoted(clip(question, _QUESTION_TOKENS))) for question in asked],
            _closing([sentence for sentence in stated if sentence not in questions]),
        )
    return [], []


def _closing(stated: Sequence[str]) -> list[str]:
    """Return the last sentences, as many as fit."""
    closing = ""
    for sentence in reversed(stated):
        longer = f"{sentence} {closing}".strip()
        if closing and estimate_text(longer) > _CLOSING_TOKENS:
            break
        closing = longer
    return [redact(quoted(clip(closing, _CLOSING_TOKENS)))] if closing else []
