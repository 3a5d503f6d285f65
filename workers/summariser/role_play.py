"""The check for role play: invented turns of a conversation, and orders to conceal something.

Models have taken a summary with invented turns or such an order for real; tool output may contain
both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

# Two items of a list, or one line that begins with a speaker, of either side.
_TURNS = 2

_USER = "user|human|customer|用户|顾客|客户|人类|пользователь|клиент|المستخدم|ユーザー|사용자"
_AGENT = (
    "assistant|ai|agent|chatgpt|claude|助手|助理|客服|机器人|ассистент|помощник|агент|المساعد"
    "|アシスタント|어시스턴트"
)
_TURN = re.compile(
    r"^(?P<bullet>[ \t]{0,8}(?:[*\-•][ \t]+|\d{1,3}[.)][ \t]+)?)[>*_# \t]{0,8}"
    rf"(?:(?P<user>{_USER})|(?P<agent>{_AGENT})|system|tool|系统)"
    r"(?:[ \t]?\(?\d{0,3}\)?)[*_]{0,2}[ \t]?[:：][*_]{0,2}",
    re.IGNORECASE | re.MULTILINE,
)
_MARKER = re.compile(
    r"<\|[a-z0-9_]{2,30}\|>"
    r"|<(?:start|end)_of_turn>|</?s>\s*\[/?INST\]|\[/?INST\]|<</?SYS>>"
    r"|^#{2,4} ?(?:human|assistant|instruction)\b ?:?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_WHOM = (
    r"\b(?:the|this|your|our|any)[ \t]{1,3}(?:user|human|customer|operator)\b"
    r"(?![ \t]?(?:list|table|names?|ids?|interface|support|data|menu|page))"
)
_CONCEAL = re.compile(
    r"(?:^|[.!?:;,\"“(\n]|\b(?:and|please|also|must|should|you))[ \t]{0,4}"
    r"(?:do not|don't|don’t|never)[ \t]{1,3}"
    r"(?:tell|inform|notify|alert|reveal|mention|disclose|show|report|let|admit)\b"
    rf"[^.!?\n]{{0,60}}?{_WHOM}"
    rf"|\b(?:hide|conceal|withhold)[ \t]{{1,3}}[^.!?\n]{{1,40}}?\bfrom[ \t]{{1,3}}{_WHOM}"
    rf"|\bkeep[ \t]{{1,3}}[^.!?\n]{{1,30}}?\bsecret[ \t]{{1,3}}from[ \t]{{1,3}}{_WHOM}"
    r"|(?:不要|别|不得|切勿|请勿|禁止)(?:告诉|告知|让|向|对|透露给|提醒)"
    r"[^。！？\n]{0,6}?(?:用户|客户|使用者)"
    r"|(?:对|向)(?:用户|客户|使用者)(?:隐瞒|保密)"
    r"|не (?:говори|сообщай|рассказывай)(?:те)? (?:об этом )?(?:пользователю|клиенту)"
    r"|скр(?:ой|ывай)(?:те)?[^.\n]{0,20} от пользователя"
    r"|لا تخبر (?:المستخدم|العميل)",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"\bignore (?:all |any |the )?(?:previous|prior|above|earlier)\b"
    r"|\bremember (?:this|the following) (?:rule|instruction)"
    r"|\b(?:new|system) instructions?:|\bfrom now on\b|\byou (?:must|are now)\b"
    r"|忽略(?:之前|以上|先前|前面)|从现在起|你必须",
    re.IGNORECASE,
)
# Orders that take the conversation over; "to ignore" only reports one.
_TAKEOVER = re.compile(
    r"(?<!\bto )\bignore (?:all |any |the )?(?:previous|prior|above|earlier)\b"
    r"|\b(?:new|system) instructions?:"
    r"|\bfrom now on,? you\b"
    r"|忽略(?:之前|以上|先前|前面)|从现在起[，,]?你",
    re.IGNORECASE,
)
_COPIED_CHARS = 40
"""An order that agrees in so many characters was copied."""
_QUOTED = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*+`", re.DOTALL)


def is_role_play(text: str) -> bool:
    """Return whether `text` contains role play.

    That is turns of both sides, role markers of a model, or an order to conceal something. Code in
    backticks is a quotation and does not count.
    """
    prose = _QUOTED.sub(" ", text)
    if _MARKER.search(prose) or _CONCEAL.search(prose):
        return True
    turns: Counter[str] = Counter()
    for turn in _TURN.finditer(prose):
        side = "user" if turn["user"] else "agent" if turn["agent"] else "other"
        turns[side] += 1 if turn["bullet"].strip() else 2
    return turns["user"] >= _TURNS and turns["agent"] >= _TURNS


def passes_order_on(text: str, foreign: Iterable[str]) -> bool:
    """Return whether `text` repeats an order to take the conversation over from a `foreign` text.

    Reporting that such a text gives orders is allowed, and so is a quotation in backticks.
    """
    prose = _QUOTED.sub(" ", text)
    orders = [
        _normalised(prose[found.start() :])[:_COPIED_CHARS].rstrip()
        for found in _TAKEOVER.finditer(prose)
    ]
    return bool(orders) and any(
        order in text for text in map(_normalised, foreign) for order in orders
    )


def _normalised(text: str) -> str:
    return " ".join(text.split()).casefold()


def is_order(line: str) -> bool:
    """Return whether `line` gives its reader orders, so that foreign text must not be repeated."""
    return bool(_ORDER.search(line) or _CONCEAL.search(line))


def without_roles(line: str) -> str:
    """Return one line without role markers and without a speaker in front of it."""
    return _TURN.sub("", _MARKER.sub(" ", line)).strip()
