"""The sections of a structured summary, and the recognition of their headings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Section(StrEnum):
    """A section of a structured summary, in this order; the value is the heading."""

    GOAL = "Goal"
    CONSTRAINTS = "Constraints and preferences"
    PROGRESS = "Progress"
    DECISIONS = "Key decisions"
    FILES = "Files and artifacts"
    QUESTIONS = "Open questions"
    STATE = "State when compacted"

    @property
    def heading(self) -> str:
        """The line that opens the section in a stored summary."""
        return f"## {self.value}"


@dataclass(frozen=True, slots=True)
class OutlineLine:
    """One line of a summary: a heading when `opens` names its section, else content."""

    text: str
    opens: Section | None = None


# In other languages models translate the headings against their instructions, and small models vary
# them.
_NAMES: Mapping[Section, str] = MappingProxyType(
    {
        Section.GOAL: (
            r"(?:user )?goals?|objectives?"
            r"|(?:用户)?目[标標]|цел[ьи]|الهدف|الأهداف|目的|목표|목적"
        ),
        Section.CONSTRAINTS: (
            r"constraints?(?: ?(?:and|&|/|,|\+) ?(?:user )?preferences?)?"
            r"|(?:约束|約束|限制)(?:条件|條件)?(?:[与與和及]?偏好)?"
            r"|ограничения(?: и предпочтения)?"
            r"|القيود(?: ?و ?التفضيلات)?"
            r"|制約(?:条件)?(?:[とおよび・]+(?:好み|希望|要望|設定))?"
            r"|제약(?: ?(?:조건|사항))?(?: ?(?:및|과|와) ?선호(?: ?사항)?)?"
        ),
        Section.PROGRESS: (
            r"progress|[进進](?:展|度)|прогресс|ход работы|التقدم|進捗(?:状況)?"
            r"|진행(?: ?(?:상황|사항))?"
        ),
        Section.DECISIONS: (
            r"(?:key |main )?decisions?"
            r"|(?:[关關]键|關鍵|重要|主要)(?:决策|决定|決策|決定)"
            r"|(?:ключевые|основные|важные) решения"
            r"|القرارات(?: (?:الرئيسية|الأساسية|المهمة))?"
            r"|(?:主な|重要な|主要な)決定(?:事項)?|(?:주요|핵심) ?결정(?: ?사항)?"
        ),
        Section.FILES: (
            r"files?(?: ?(?:and|&|/|,|\+) ?(?:artifacts?|artefacts?))?"
            r"|(?:文件|文档|檔案)(?:[与與和及](?:产物|產物|产出|產出|工件|制品|成果|资料|資料))?"
            r"|файлы(?: и (?:артефакты|материалы|результаты))?"
            r"|الملفات(?: ?و ?(?:المخرجات|النتائج|المواد|القطع الأثرية))?"
            r"|ファイル(?:[とおよび・]+(?:成果物|生成物|アーティファクト))?"
            r"|파일(?: ?(?:및|과|와) ?(?:산출물|결과물|아티팩트))?"
        ),
        Section.QUESTIONS: (
            r"open (?:questions?|points?|issues?)"
            r"|(?:未决|未決|待解决|待解決|未解决|未解決|开放|開放|待定)的?(?:问题|問題|事项|事項)"
            r"|(?:открытые|нерешённые|нерешенные) вопросы"
            r"|(?:الأسئلة|القضايا|النقاط) (?:المفتوحة|المعلقة)"
            r"|未解決の(?:質問|問題|課題|事項)|(?:미해결|열린|남은) ?(?:질문|문제|사항)"
        ),
        Section.STATE: (
            r"(?:current )?state (?:when|at|upon) (?:the )?(?:time of )?(?:compacted|compaction)"
            r"|(?:压缩|壓縮)[时時]的?(?:状态|狀態)"
            r"|состояние (?:на момент|при|во время) (?:сжатия|уплотнения)"
            r"|الحالة (?:عند|وقت) (?:الضغط|التلخيص)"
            r"|圧縮時の状[態況]|압축 ?(?:시점|당시|시)의? ?상태"
        ),
    }
)
_NUMBERS: Mapping[Section, str] = MappingProxyType(
    {section: str(number) for number, section in enumerate(Section, start=1)}
)

_ANY_NAME = "|".join(f"(?P<{section.name}>{names})" for section, names in _NAMES.items())
# Quoted or cut names are content, and "•" and "→" begin the steps of the built-in summariser.
_ORNAMENT = r"(?:[^\w\n`\"'“”‘’«»「」…•→⇒⟦]|_){0,12}"
_ORDINAL = r"(?:\d{1,2}|[一二三四五六七])[.)、:]"
_ASIDE = r"(?:[ \t]*[(（][^()（）\n]{0,60}[)）])?"
_ALONE = re.compile(
    rf"{_ORNAMENT}(?:{_ORDINAL}{_ORNAMENT})?(?:{_ANY_NAME}){_ASIDE}(?:[^\w`\"'”’…]|_){{0,12}}",
    re.IGNORECASE,
)
_SET_OFF = r"#{1,6} *(?:\*\*|__)?(?:\d{1,2}[.)、] *)?|(?:[-*+] +|\d{1,2}[.)、] *)?(?:\*\*|__)"
_WITH_TEXT = re.compile(
    rf"(?:{_SET_OFF}|(?P<number>\d)[.)、] *)?(?:{_ANY_NAME}){_ASIDE}"
    r"(?:\*\*|__)?[ \t]*[:：](?:\*\*|__)?[ \t]*(?P<text>\S.*)",
    re.IGNORECASE,
)
_FENCE = re.compile(r"[ \t]{0,8}(?:```|~~~)")


def outline(text: str) -> Iterator[OutlineLine]:
    """Yield the lines of `text` in order, with headings distinguished from content.

    `## Goal`, `**Goal**`, `Goal:`, `1. Goal` and the like are headings in upper and lower case,
    with "&" for "and", and in Chinese, Japanese, Korean, Russian and Arabic; they are returned in
    the stored form. Text after a heading on its line becomes the next line. Code blocks contain no
    headings.
    """
    lines = text.splitlines()
    code = _in_code(lines)
    for number, line in enumerate(lines):
        if number in code:
            yield OutlineLine(line)
        else:
            yield from _divided(line)


def missing_headings(text: str) -> tuple[str, ...]:
    """Return the names of the sections without a heading in `text`, in order; see `outline`."""
    there = {line.opens for line in outline(text)}
    return tuple(section.value for section in Section if section not in there)


def body(text: str) -> str:
    """Return `text` without its headings."""
    return "\n".join(line.text for line in outline(text) if line.opens is None)


def as_progress(summary: str) -> str:
    """Return a summary without an opening heading as the Progress of a structured one.

    So it can follow another structured summary.
    """
    first = next((line for line in outline(summary) if line.text.strip()), None)
    if first is None or first.opens is not None:
        return summary
    return f"{Section.PROGRESS.heading}\n{summary}"


def _divided(line: str) -> Iterator[OutlineLine]:
    # Bounded, since each iteration copies the rest of the line.
    for _ in Section:
        found = _heading(line)
        if found is None:
            break
        section, rest = found
        yield OutlineLine(section.heading, section)
        if rest is None:
            return
        line = rest
    yield OutlineLine(line)


def _heading(line: str) -> tuple[Section, str | None] | None:
    stripped = line.strip()
    if alone := _ALONE.fullmatch(stripped):
        return _named(alone), None
    if found := _WITH_TEXT.fullmatch(stripped):
        section = _named(found)
        # "1. Goal: …" opens the first section, "8. Goal: …" is a step that was done.
        if found["number"] in (None, _NUMBERS[section]):
            return section, found["text"]
    return None


def _named(found: re.Match[str]) -> Section:
    return next(section for section in Section if found[section.name] is not None)


def _in_code(lines: list[str]) -> set[int]:
    """Return the numbers of the lines of code blocks; an unclosed block is none."""
    fences = [number for number, line in enumerate(lines) if _FENCE.match(line)]
    inside: set[int] = set()
    for first, last in zip(fences[::2], fences[1::2], strict=False):
        inside.update(range(first, last + 1))
    return inside
