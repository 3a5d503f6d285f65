"""What of a person's words is worth keeping as a line of its own, found without a model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from workers.summariser.extractive.condensing import JOINT, clip
from workers.summariser.extractive.placeholder_lines import Line
from workers.summariser.headings import Section, outline
from workers.summariser.passages import NOTE
from workers.summariser.role_play import is_order, without_roles
from workers.tokens import estimate_text

LINE_TOKENS = 60

_PER_MESSAGE = 8
_FEWEST_LETTERS = 4

_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_CODE = re.compile(
    r"^(?:\d{1,6}[:|]|[\[(/]|File [\"'])|\w\s?=\s?[\w\"'\[({]|^[\w.]+\(|[\[({;:\\]$|[)\]}],$"
)
_ORNAMENT = re.compile(r"^(?:[>#*\-•→\s]+|\d{1,3}[.)]\s+)+|\*{2,}")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[。！？])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\ufeff]+")

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
    r"|决定|решил\w*|решено",
    re.IGNORECASE,
)

# Words that order about are foreign in the mouth of a tool, but a person's own.
_OWN_WORDS = re.compile(r"\b(?:from now on|you must)\b|从现在起|你必须", re.IGNORECASE)


def statements(text: str) -> list[Line]:
    """Take the telling lines out of one user message, at most eight, in their order.

    Rules, wishes and facts come under constraints, requests under the goal. `text` is redacted
    already. What reads like an order to an agent, or like a heading, is set in backticks: quoted
    matter.
    """
    lines = [
        Line.of(_section(unit), unit) for unit in dict.fromkeys(units(text)) if _is_prose(unit)
    ]
    told = [_quoted(line) for line in lines if line.telling]
    best = set(sorted(told, key=lambda line: -line.worth)[:_PER_MESSAGE])
    return [line for line in told if line in best]


def units(text: str) -> Iterator[str]:
    """Take a text apart into plain lines of at most 60 tokens; code blocks are left out.

    A longer line becomes several: sentences, as many together as fit.
    """
    for raw in _CODE_BLOCK.sub("\n", NOTE.sub(" ", text)).splitlines():
        line = plain(raw)
        if estimate_text(line) <= LINE_TOKENS:
            yield line
            continue
        unit = ""
        for sentence in _SENTENCE_END.split(line):
            longer = f"{unit} {sentence}".strip()
            if unit and estimate_text(longer) > LINE_TOKENS:
                yield clip(unit, LINE_TOKENS)
                longer = sentence
            unit = longer
        yield clip(unit, LINE_TOKENS)


def flat(text: str) -> str:
    """Write text as one line without control characters."""
    return " ".join(_CONTROL.sub(" ", text).split())


def plain(text: str) -> str:
    """Write text as one line without ornaments, speakers and role markers, however many."""
    line = flat(text).replace(JOINT, " ")
    while (barer := _ORNAMENT.sub("", without_roles(line))) != line:
        line = barer
    return line


def span(text: str) -> str:
    """Set a text in backticks: quoted matter, no order and no turn of a conversation."""
    return f"`{text.replace('`', chr(39)).strip()}`"


def is_heading(line: str) -> bool:
    """True when `line` in a summary would open a section."""
    return any(part.opens for part in outline(f"- {line}"))


def _quoted(line: Line) -> Line:
    is_foreign = is_order(_OWN_WORDS.sub(" ", line.text)) or is_heading(line.text)
    return Line.of(line.section, span(line.text)) if is_foreign else line


def _is_prose(line: str) -> bool:
    """Whether a line is a sentence of words and not one of code, of a listing or of a log."""
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
