"""What of passages belongs into the sections of a summary, found without a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from workers.redaction import redact
from workers.summariser.contract import Passage
from workers.summariser.extractive.condensing import JOINT, clip
from workers.summariser.extractive.paths import places
from workers.summariser.extractive.sections import Sections
from workers.summariser.extractive.statements import flat, span, statements
from workers.summariser.extractive.steps import SAID, extracts
from workers.summariser.headings import Section
from workers.summariser.passages import NOTE
from workers.summariser.role_play import is_order, without_roles
from workers.tokens import estimate_text

_CLOSING_TOKENS = 60
_QUESTION_TOKENS = 40

_DECIDED = re.compile(
    r"\b(?:decided|chose|opted for|settled on|agreed (?:on|to)|instead of|rather than"
    r"|switched to)\b"
    r"|决定|选定|改用|采用|\b(?:решил\w*|решено|выбра\w+)\b|قرر",
    re.IGNORECASE,
)
_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[。！？؟])|\n+")
_ORNAMENT = re.compile(r"^(?:[>#*\-•\s]+|\d{1,3}[.)]\s+)+|\*{2,}|`")
_QUESTION = ("?", "？", "؟")


def section_extracts(passages: Sequence[Passage]) -> Sections:
    """Take from `passages`, in their order, what a structured summary tells of them.

    The user's words and the agent's last ones are quoted, what comes from tools and places stand
    in backticks, so nothing reads as an order or a turn; symbols stand for words, so the lines
    fit any language. Everything is redacted.
    """
    steps = extracts(passages)
    decisions = [step for step in steps if step.startswith(SAID) and _DECIDED.search(step)]
    told = _of_user(passages)
    told[Section.PROGRESS] += [step for step in steps if step not in decisions]
    told[Section.DECISIONS] += decisions
    told[Section.FILES] += map(span, places(passages))
    questions, closing = _last_words(passages)
    told[Section.QUESTIONS] += questions
    told[Section.STATE] += closing or steps[-1:]
    lines = {section: tuple(map(_safe, texts)) for section, texts in told.items()}
    return Sections({section: tuple(filter(None, texts)) for section, texts in lines.items()})


def _of_user(passages: Sequence[Passage]) -> dict[Section, list[str]]:
    told: dict[Section, list[str]] = {section: [] for section in Section}
    for one in passages:
        if one.label == "user":
            for statement in statements(one.text):
                told[Section(statement.section)].append(_quoted(statement.text))
    return told


def _last_words(passages: Sequence[Passage]) -> tuple[list[str], list[str]]:
    """What the agent asked at last, unless the user spoke after it, and what it said at last."""
    spoken = [one for one in passages if one.label in ("user", "assistant")]
    asked: list[str] = []
    for one in reversed(spoken):
        sentences = list(_sentences(one.text)) if one.label == "assistant" else []
        if not sentences:
            continue
        questions = [sentence for sentence in sentences if sentence.endswith(_QUESTION)]
        if one is spoken[-1]:
            asked = [_quoted(clip(question, _QUESTION_TOKENS)) for question in questions[-2:]]
        return asked, _closing([sentence for sentence in sentences if sentence not in questions])
    return asked, []


def _closing(sentences: Sequence[str]) -> list[str]:
    """The last sentences, as many as fit."""
    closing = ""
    for sentence in reversed(sentences):
        longer = f"{sentence} {closing}".strip()
        if closing and estimate_text(longer) > _CLOSING_TOKENS:
            break
        closing = longer
    return [_quoted(clip(closing, _CLOSING_TOKENS))] if closing else []


def _sentences(text: str) -> Iterator[str]:
    for piece in _SENTENCE_END.split(_CODE_BLOCK.sub("\n", NOTE.sub(" ", text))):
        sentence = flat(_ORNAMENT.sub("", without_roles(_ORNAMENT.sub("", piece.strip()))))
        if any(map(str.isalnum, sentence)):
            yield sentence


def _quoted(text: str) -> str:
    if is_order(text):
        return span(text)
    return text if text.startswith("`") else f"“{text}”"


def _safe(line: str) -> str:
    return redact(line.replace(JOINT, " "))
