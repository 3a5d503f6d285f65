"""The salience of lines of a conversation, by rules.

Rules for the agent weigh most, then preferences, decisions, open points and errors, then
particulars that cannot be guessed: names, numbers, dates, codes, paths. Other words weigh nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

_MOST_PARTICULARS = 3


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RULE_WORDS = _words(
    "never always must mustn't mustn’t shall forbidden prohibited only require required requires "
    "mandatory unless until without except limit cap capped budget deadline exceed exceeds "
    "exceeding avoid "
    "никогда всегда нельзя должен должна должно должны обязательно только запрещено"
)
_RULE_PHRASES = (
    *("may not", "no longer", "not allowed", "at most", "at least", "no more than", "no less than"),
    *("no later than", "not before", "not after", "under no ", ", not "),
    *("必须", "不要", "不能", "不得", "不准", "禁止", "只能", "务必", "一定要", "最多", "至少"),
    *("不超过", "以内", "预算", "截止", "не более", "не менее", "не позже", "يجب", "ممنوع", "فقط"),
)
# A prohibition or a condition; but not "I don't remember".
_RULE_FORM = re.compile(
    r"(?<!\bi )(?<!\bwe )(?<!\byou )(?<!\bthey )\b(?:do not|don['’]t)\b"
    r"|(?:^|[:.] )(?:if [^,.]{4,80}, \w|no (?!idea|luck|need|problem|thanks|worries)\w+ )"
)
_PREFERENCE_WORDS = _words(
    "prefer prefers preferred preference preferably favourite favorite want wants wish wishes like "
    "likes rather instead style tone answers reply replies responses "
    "предпочитаю предпочитает хочу хотел хотела хотим лучше"
)
_PREFERENCE_PHRASES = ("喜欢", "偏好", "希望", "想要", "最好", "尽量", "أفضل", "أريد")
_STATE_WORDS = _words(
    "decided decision agreed chose chosen approved confirmed rejected because awaiting blocked "
    "pending undecided todo currently current remaining now next switched "
    "решил решила решили решено подтвердил сейчас"
)
_STATE_PHRASES = (
    *("open question", "waiting for", "in progress", "based on", "changed to", "moved to"),
    *("决定", "确认", "同意", "待定", "下一步", "目前", "剩余", "改为", "قرر"),
)
_TROUBLE_WORDS = _words(
    "error errors exception failed fails failing failure fatal denied refused panic traceback "
    "ошибка ошибки"
)
_TROUBLE_PHRASES = ("not found", "error:", "exception:", "错误", "失败", "异常", "خطأ")
_KINDS = (
    (2, _PREFERENCE_WORDS, _PREFERENCE_PHRASES),
    (2, _STATE_WORDS, _STATE_PHRASES),
    (2, _TROUBLE_WORDS, _TROUBLE_PHRASES),
)

_LABEL = re.compile(r"^[^\w\s]{0,3}\s?(?:[A-Z][A-Z ]{2,24}|(?i:note|remember|important|update)):")
_LABEL_WEIGHT = 2
_RULE_WEIGHT = 3

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_PARTICULAR = re.compile(r"\d|[/\\@_$€£¥]|\.[a-z]{2}|[a-z][A-Z]")
_EDGES = ".,;:!?()[]{}<>\"'`“”‘’*•→⇒┆。，；：！？（）「」『』《》"
_CLOSERS = (".", "!", "?", ":", "•", "→", "。", "！", "？")


def salience(line: str) -> int:
    """Return the weight of one line: 0 for small talk, about 14 for a rule with particulars."""
    label = _LABEL.match(line)
    rest = line[label.end() :] if label else line
    low = rest.casefold()
    words = frozenset(_WORD.findall(low))
    total = _LABEL_WEIGHT if label else 0
    if _binds(low, words):
        total += _RULE_WEIGHT
    for weight, cues, phrases in _KINDS:
        if not cues.isdisjoint(words) or any(phrase in low for phrase in phrases):
            total += weight
    return total + len(list(islice(_particulars(rest), _MOST_PARTICULARS)))


def _binds(low: str, words: frozenset[str]) -> bool:
    return (
        not _RULE_WORDS.isdisjoint(words)
        or any(phrase in low for phrase in _RULE_PHRASES)
        or _RULE_FORM.search(low) is not None
    )


def _particulars(line: str) -> Iterator[str]:
    """Yield the distinct words that cannot be guessed: names, numbers, codes, paths."""
    seen: set[str] = set()
    is_start, after_name = True, False
    for token in line.split():
        bare = token.strip(_EDGES)
        is_name = bare.isalpha() and bare[0].isupper() and bare != "I" and not is_start
        if (is_name and not after_name) or _PARTICULAR.search(bare):
            if bare not in seen:
                yield bare
            seen.add(bare)
        is_start, after_name = token.endswith(_CLOSERS), is_name


_TOPIC_WORD = re.compile(r"[^\W_]+")
_FEWEST_LETTERS = 4
_COMMON = re.compile(
    r"about|after|anything|before|does|everything|from|have|into|only|other|over|than|that|their"
    r"|them|then|there|these|they|thing|this|those|what|when|where|which|with|your"
)
_PAIR = 2


def terms_of(topic: str) -> frozenset[str]:
    """Return the terms of `topic`: a line that contains one of them concerns it.

    Those are words of four letters and more, without the ending of English plurals; shorter ones
    that are names by their capitals or digits; and each pair of characters of a run of Chinese,
    Japanese or Korean, where no spaces separate words. A topic of common words has none.
    """
    return frozenset(term for word in _TOPIC_WORD.findall(topic) for term in _terms(word))


def concerns(line: str, terms: frozenset[str]) -> bool:
    """Return whether `line` contains one of `terms`."""
    low = line.casefold()
    return any(term in low for term in terms)


def _terms(word: str) -> Iterator[str]:
    low = word.casefold()
    if _is_dense(word):
        yield from (low[i : i + _PAIR] for i in range(max(1, len(low) - 1)))
    elif len(word) >= _FEWEST_LETTERS and not _COMMON.fullmatch(low):
        yield low.removesuffix("s")
    elif len(word) >= _PAIR and (word.isupper() or any(map(str.isdigit, word))):
        yield low


def _is_dense(word: str) -> bool:
    return any("\u3041" <= letter <= "\u9fff" or "\uac00" <= letter <= "\ud7a3" for letter in word)
