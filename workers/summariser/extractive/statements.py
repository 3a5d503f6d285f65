"""The lines of a conversation that a summary keeps, and the section of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from workers.redaction import redact
from workers.summariser.contract import Passage
from workers.summariser.extractive.sections import SummaryLine
from workers.summariser.extractive.sentences import is_heading, plain, span, units
from workers.summariser.extractive.steps import SAID, paths, steps
from workers.summariser.headings import Section
from workers.summariser.role_play import is_order

_PER_MESSAGE = 8
_FEWEST_LETTERS = 4

_CODE = re.compile(
    r"^(?:\d{1,6}[:|]|[\[(/]|File [\"'])|\w\s?=\s?[\w\"'\[({]|^[\w.]+\(|[\[({;:\\]$|[)\]}],$"
)
_ASKS = re.compile(
    r".{0,40}?(?:\bplease\b|\b(?:can|could|would|will) you\b|\blet[’']s\b|请|帮我|想|пожалуйста"
    r"|\b(?:i|we)(?: |[’'])(?:am|m|re|d|would|need|want|wish)(?: like)?(?: looking)? (?:to|you)\b"
    r"|помоги|хочу|من فضلك|أريد)|(?:what|which|who|where|when|why|how)\b"
    r"|.*[?？؟]$",
    re.IGNORECASE,
)
_BINDS = re.compile(
    r"\b(?:never|always|must|do not|don[’']t|only|prefer\w*)\b|必须|不要|只能", re.IGNORECASE
)
_OPEN = re.compile(
    r"\b(?:open question|awaiting|undecided|to be (?:decided|confirmed)|tb[dc])\b|待定|待确认",
    re.IGNORECASE,
)
_DECIDED = re.compile(
    r"\b(?:decided|decision|agreed|approved|(?:i|we)(?:[’']ll| will) go with)\b"
    r"|决定|\bрешил\w*|\bрешено|قرر",
    re.IGNORECASE,
)
_AGENT_DECIDED = re.compile(
    r"\b(?:decided|chose|opted for|settled on|agreed (?:on|to)|instead of|rather than"
    r"|switched to)\b"
    r"|决定|选定|改用|采用|\b(?:решил\w*|решено|выбра\w+)\b|قرر",
    re.IGNORECASE,
)

# Orders that are suspicious in the output of a tool, but normal in a person's message.
_OWN_WORDS = re.compile(r"\b(?:from now on|you must)\b|从现在起|你必须", re.IGNORECASE)


def findings(passages: Sequence[Passage]) -> Iterator[SummaryLine]:
    """Yield the user's statements, the steps and decisions, and the files of `passages`.

    Everything is redacted; text of tools and paths are set in backticks.
    """
    for one in passages:
        if one.label == "user":
            yield from statements(one.text)
    for step in steps(passages):
        clean = redact(step)
        is_said = clean.startswith(SAID)
        decided = is_said and _AGENT_DECIDED.search(clean)
        text = f"{SAID} {plain(clean)}" if is_said else clean
        yield SummaryLine.of(Section.DECISIONS if decided else Section.PROGRESS, text)
    for path in paths(passages):
        yield SummaryLine.of(Section.FILES, redact(span(path)))


def statements(text: str) -> list[SummaryLine]:
    """Return the salient lines of one user message, at most eight, in their order.

    Rules, preferences and facts belong to the constraints, requests to the goal. `text` is already
    redacted. Lines that read like an order to an agent, or like a heading, are set in backticks.
    """
    lines = [
        SummaryLine.of(_section(unit), unit)
        for unit in dict.fromkeys(units(text))
        if _is_prose(unit)
    ]
    salient = [_quoted(line) for line in lines if line.salience]
    best = set(sorted(salient, key=lambda line: -line.weight)[:_PER_MESSAGE])
    return [line for line in salient if line in best]


def _quoted(line: SummaryLine) -> SummaryLine:
    is_foreign = is_order(_OWN_WORDS.sub(" ", line.text)) or is_heading(line.text)
    return SummaryLine.of(line.section, span(line.text)) if is_foreign else line


def _is_prose(line: str) -> bool:
    """Return whether a line is prose and not part of code, a listing or a log."""
    letters = sum(map(str.isalpha, line)) + line.count(" ")
    return letters >= max(_FEWEST_LETTERS, len(line) / 3) and not _CODE.search(line)


def _section(line: str) -> Section:
    if _OPEN.search(line):
        return Section.QUESTIONS
    if _DECIDED.search(line):
        return Section.DECISIONS
    if _ASKS.match(line) and not _BINDS.search(line):
        return Section.GOAL
    return Section.CONSTRAINTS
