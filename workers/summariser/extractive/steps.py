"""The steps of a conversation, one short line each, and the files that it names.

The line of an assistant's message holds its first sentences that state something, that of a tool
call its name, its arguments and the facts of its result. Symbols replace words, so the lines fit
any language. Text of tools is set in backticks as a quotation, so it is not read as an order.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from workers.conversation.tokens import estimate_text
from workers.summariser.contract import Passage
from workers.summariser.extractive.condensing import JOINT, clip
from workers.summariser.extractive.sentences import flat, sentences, span
from workers.summariser.passages import NOTE
from workers.summariser.role_play import is_order

SAID, CALLED, GAVE = "•", "→", "⇒"

_SENTENCE_TOKENS = 45
_ARGUMENT_TOKENS = 24
_FACT_TOKENS = 40
_VALUE_CHARS = 40
_FACTS = 8
_DEPTH = 3

_OPENER = re.compile(
    r"(?:(?:sure|great|okay|ok|certainly|of course|absolutely|perfect|got it|thanks|thank you|so"
    r"|(?:i(?:'m| am|’m) (?:very |so )?)?sorry|unfortunately|yes|no|now"
    r"|好的?|嗯|没问题|(?:非常|很)?抱歉|对不起|不好意思|当然(?:可以)?|可以的?"
    r"|конечно|хорошо|спасибо|да|к сожалению|حسنا|بالتأكيد)[ ]?[,，.。!！;、،][,，.。!！ ]*)+",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"(?:thank|thanks|hello|hi|i(?:'m| am|’m) sorry|i apologi[sz]e|sorry|please|let me|let's|let us"
    r"|i(?:'ll|’ll| will| can)|could you|would you|can you|do you|is there|if you|feel free"
    r"|you're welcome|safe travels|have a (?:great|nice|good|safe)|to proceed|with that|i hope"
    r"|i understand|discussion\b"
    r"|您好|你好|谢谢|不客气|不用谢|请问|让我|我来|我将"
    r"|здравствуйте|пожалуйста|мне жаль|позвольте|مرحبا|شكرا|من فضلك)",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\b(?:i(?:'ll|’ll| will)? need (?:your|the|to know)|please (?:provide|confirm|let)"
    r"|let me know|feel free)\b|还有什么|需要什么|还需要|可以告诉我"
    r"|пожалуйста, (?:укажите|подтвердите)",
    re.IGNORECASE,
)
_FACTUAL = re.compile(r"\d|[/\\_@#$€¥£%\"“「『《]|[a-z][A-Z]|\b[A-Z]{2,}\b")
_IMPORTANT_FIELD = re.compile(
    r"(?:^|_)(?:id|ids|status|error|message|name|total|price|cost|amount|balance|date|code|result"
    r"|count|number|path|url|title)$",
    re.IGNORECASE,
)
_TROUBLE = re.compile(
    r"\b(?:\w*error|\w*exception|failed|failure|fatal|denied|not found|no such|refused|timed out"
    r"|timeout|panic|cannot|unable)\b|错误|失败|异常|无法|不存在|ошибка|не удалось|خطأ|فشل",
    re.IGNORECASE,
)
_EXIT = re.compile(
    r"\b(?:exit|return)[ _-]?(?:code|status)?\D{0,8}\d+|退出码\D{0,4}\d+", re.IGNORECASE
)
_SPAN = re.compile(r"`[^`]*`")
_PATHS_OF_ONE = 4
_PATH_CHARS = 160

_PATH_WORD = re.compile(r"[^\s\"'`<>()\[\]{}|,;*\\，。；、：（）「」《》“”‘’!！？]+")
_ADDRESS = re.compile(r"(?:https?|s3|gs|ssh|ftp)://[^\s/]+\S*", re.IGNORECASE)
_ENDING = (
    r"(?:py|pyi|ipynb|js|jsx|ts|tsx|java|kt|go|rs|rb|php|c|cc|cpp|h|hpp|cs|swift|sh|sql|html?|css"
    r"|json|jsonl|ya?ml|toml|ini|cfg|conf|xml|csv|tsv|md|rst|txt|log|lock|db|sqlite|pdf|docx?|xlsx?"
    r"|pptx?|png|jpe?g|gif|svg|webp|mp[34]|wav|zip|gz|tar|tgz|patch|diff|env|proto|ps1|bat)"
)
_FILE = re.compile(
    rf"(?:[\w.@+~-]{{0,80}}/)*+[\w.@+-]{{1,80}}\.{_ENDING}(?::\d+)?"  # src/app.py, notes.md:12
    r"|(?:~|\.{1,2})?/(?:[\w.@+-]{1,80}/)+[\w.@+-]{0,80}",  # /etc/hosts, ./build/out/
    re.IGNORECASE,
)


def steps(passages: Sequence[Passage]) -> list[str]:
    """Return one line for each step in `passages`, in order.

    Messages of the user are left out, since they stay in the conversation word for word.
    """
    lines: list[str] = []
    waiting: deque[tuple[str, str]] = deque()
    for one in passages:
        if one.label == "assistant":
            lines.extend(_called(name, arguments) for name, arguments in waiting)
            waiting = deque(one.calls)
            if sentence := _sentence(one.text):
                lines.append(f"{SAID} {sentence}")
        elif one.label.startswith("tool"):
            lines.append(_result(one, waiting))
    lines.extend(_called(name, arguments) for name, arguments in waiting)
    return [line.replace(JOINT, " ") for line in lines]


def as_quoted(step: str) -> str:
    """Set a whole step in backticks, after its symbol."""
    symbol, _, text = step.partition(" ")
    if symbol not in (SAID, CALLED):
        symbol, text = SAID, step
    return step if _SPAN.fullmatch(text) else f"{symbol} {span(text)}"


def _sentence(text: str) -> str:
    """Return the sentences that state facts, as many as fit, else the first that is not filler."""
    kept = [stated for one in sentences(text) if _is_content(stated := _statement(_bare(one)))]
    facts = [sentence for sentence in kept if _FACTUAL.search(sentence)] or kept[:1]
    chosen = facts[:1]
    for fact in facts[1:]:
        if estimate_text(" ".join([*chosen, fact])) > _SENTENCE_TOKENS:
            break
        chosen.append(fact)
    return clip(" ".join(chosen), _SENTENCE_TOKENS)


def _is_content(sentence: str) -> bool:
    return (
        len(sentence.encode("utf-8", "replace")) >= 15
        and not sentence.isupper()
        and not sentence.endswith((":", "："))
        and not _FILLER.match(sentence)
        and not _ASKS.search(sentence)
        and not is_order(sentence)
    )


def _bare(sentence: str) -> str:
    opener = _OPENER.match(sentence)
    return sentence[opener.end() :] if opener else sentence


def _statement(sentence: str) -> str:
    """Return the part of a sentence before its question; "" for a mere question."""
    if not sentence.endswith(("?", "？", "؟")):
        return sentence
    return sentence[: max(sentence.rfind(comma) for comma in (",", "，", "、", "،", ";")) + 1][:-1]


def _called(name: str, arguments: str) -> str:
    return f"{CALLED} {span(f'{name}({_arguments(arguments)})')}"


def _result(one: Passage, waiting: deque[tuple[str, str]]) -> str:
    name = one.label.removeprefix("tool").strip()
    place = next((i for i, call in enumerate(waiting) if call[0] == name), 0)
    if waiting:
        name, arguments = waiting[place]
        del waiting[place]
        made = _called(name, arguments)
    else:
        made = f"{CALLED} {span(name or '?')}"
    facts = clip(_facts(one.text), _FACT_TOKENS)
    return f"{made} {GAVE} {span(facts)}" if facts else made


def _arguments(text: str) -> str:
    value = _json(text)
    if isinstance(value, Mapping):
        room = _VALUE_CHARS * (2 if len(value) == 1 else 1)
        text = ", ".join(_argument(key, inner, room) for key, inner in value.items())
    return clip(flat(text), _ARGUMENT_TOKENS)


def _argument(name: str, value: Any, room: int) -> str:
    """Write one argument.

    A single word needs no name, and old lines are cut, so ids must come early in them.
    """
    short = _short(value, room)
    is_word = isinstance(value, str) and 2 <= len(short) <= _VALUE_CHARS and " " not in short
    return short if is_word or room > _VALUE_CHARS else f"{name}={short}"


def _facts(text: str) -> str:
    value = _json(text)
    if isinstance(value, Mapping | list):
        found = sorted(
            _leaves(value, _DEPTH), key=lambda leaf: not _IMPORTANT_FIELD.search(leaf[0])
        )
        return ", ".join(f"{name}: {short}" if name else short for name, short in found[:_FACTS])
    return _important_lines(text)


def _leaves(value: Any, depth: int, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the scalars of a JSON value with their field names, outer ones first."""
    if not isinstance(value, Mapping | list):
        if value not in (None, "") and not is_order(str(value)):
            yield name, _short(value)
        return
    if depth == 0 or not value:
        return
    if isinstance(value, list):
        yield name, f"[{len(value)}]"
        inner = [(name, value[0])]
    else:
        inner = sorted(value.items(), key=lambda item: isinstance(item[1], Mapping | list))
    for field, one in inner:
        yield from _leaves(one, depth - 1, str(field))


def _important_lines(text: str) -> str:
    """Return the first line, the first two that report trouble, and the exit code."""
    lines = [
        line
        for raw in NOTE.sub(" ", text).splitlines()
        if (line := flat(raw)) and any(map(str.isalnum, line)) and not is_order(line)
    ]
    chosen = [
        *lines[:1],
        *[line for line in lines[1:] if _TROUBLE.search(line)][:2],
        *[line for line in lines[1:] if _EXIT.search(line)][:1],
    ]
    share = _FACT_TOKENS // max(1, len(chosen))
    return " | ".join(clip(line, share) for line in dict.fromkeys(chosen))


def _short(value: Any, room: int = _VALUE_CHARS) -> str:
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    line = flat(value)
    if len(line) <= room:
        return line
    # The end of a path is more informative than its middle.
    start = room - 1 if " " in line else room // 3
    return f"{line[:start]}…{line[len(line) - (room - 1 - start) :]}"


def _json(text: str) -> Any:
    if text[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def paths(passages: Iterable[Passage]) -> list[str]:
    """Return the files and addresses in messages and calls, in order of their last mention.

    Tool output is left out, since a listing names hundreds, and of one message only the first four
    are taken.
    """
    found: dict[str, None] = {}
    for one in passages:
        if one.label in ("user", "assistant"):
            for path in _first(_paths(one)):
                found.pop(path, None)
                found[path] = None
    return list(found)


def _first(found: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(found))[:_PATHS_OF_ONE]


def _paths(one: Passage) -> Iterator[str]:
    for text in (*(arguments for _, arguments in one.calls), one.text):
        # Arguments are JSON text: a line break in them is two characters.
        for word in _PATH_WORD.findall(text.replace("\\n", " ").replace("\\t", " ")):
            path = word.rstrip(".:?")
            if len(path) <= _PATH_CHARS and (_ADDRESS.fullmatch(path) or _FILE.fullmatch(path)):
                yield path
