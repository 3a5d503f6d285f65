"""Answers that are not summaries: refusals, plans, error pages, tool calls.

Each is recognised by the opening of the whole answer, in the languages in which endpoints and
models write them; a summary that reports a refusal or a plan does not open with one.
"""

from __future__ import annotations

import json
import re
from typing import Any

from workers.summariser.contract import ErrorClass

_FENCED = re.compile(r"```(?P<language>[\w-]*)[ \t]*\n(?P<inside>.*)\n[ \t]*```", re.DOTALL)
_TEXT_FENCES = frozenset({"markdown", "md", "text", "txt"})
_PREAMBLE = re.compile(
    r"(?:(?:sure|okay|ok|certainly|of course|understood|好的|当然|明白了?)[,，.。!！: ]*)?"
    r"(?:"
    r"(?:here(?:'s|’s| is| are)|below is|this is|the following is)"
    r"[^\n:]{0,60}\bsummary\b[^\n:]{0,60}:"
    r"|(?:以下|下面|这)(?:是|为)[^\n：:]{0,20}(?:摘要|总结|概要)[^\n：:]{0,20}[：:]"
    r"|вот [^\n:]{0,40}(?:резюме|сводка|саммари|выжимка)[^\n:]{0,40}:"
    r"|(?:فيما يلي|إليك|هذا هو)[^\n:]{0,40}(?:ملخص|الملخص)[^\n:]{0,40}:"
    r"|[#*_ ]{0,6}(?:the )?(?:new |updated |revised |running |rolling |conversation )*summary"
    r"[*_ ]{0,4}(?::[*_ ]{0,4}|(?=\n))"
    r"|[#*_ ]{0,6}(?:更新后的|新的|滚动|对话)*(?:摘要|总结)[*_ ]{0,4}(?:[：:][*_ ]{0,4}|(?=\n))"
    r")\s*",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"(?:(?:i(?:'m| am|’m) (?:so |very )?sorry|sorry|apologies|i apologi[sz]e|unfortunately)\b"
    r"[^\n]{0,40}?\b(?:as an ai"
    r"|(?:i|we)(?:'m| am|’m)? ?(?:can|can't|can’t|cannot|unable|not able|won't|must))\b"
    r"|i(?: can(?:'t|’t|not)| am unable to|'m unable to|’m unable to| won't| will not)"
    r" (?:help|assist|comply|do|provide|fulfil|summari[sz]e|process|continue|create|write|generate"
    r"|access|see|read)"
    r"|as an ai\b"
    r"|(?:很?抱歉|对不起|不好意思)[，,！!。 ]{0,2}我?(?:无法|不能|没有办法|没法)"
    r"|我(?:无法|不能)(?:提供|协助|帮助|完成|满足|回答|总结|处理)|作为(?:一个|一名)?(?:ai|人工智能)"
    r"|(?:извините|простите|к сожалению|прошу прощения)[^\n]{0,20}\bя не (?:могу|смогу)"
    r"|я не могу (?:помочь|выполнить|предоставить|обобщить)"
    r"|(?:عذر[اًا]+|آسف|أعتذر|للأسف)[^\n]{0,20}(?:لا أستطيع|لا يمكنني|لن أتمكن)"
    r"|(?:lo siento|je suis désolée?|es tut mir leid)\b)",
    re.IGNORECASE,
)
_PLAN = re.compile(
    r"(?:(?:sure|okay|ok|certainly|of course|great|alright|right|好的|好|当然)[,，.。!！ ]*)?"
    r"(?:(?:first|next|now|then|so)[, ]+)?"
    r"(?:i(?:'ll|’ll| will| shall| am going to|'m going to|’m going to| need to| should)\b"
    r"|let me\b|let(?:'s|’s| us)\b|we(?:'ll|’ll| will| need to| should| have to| must)\b"
    r"|my plan\b|here(?:'s|’s| is) (?:my|the) plan\b|the user wants me to\b"
    r"|(?:首先|接下来|现在|下面)?[，, ]?"
    r"(?:我将|我会(?!员)|我要(?!求)|我需要|我应该|我先(?!后)|让我|我来)"
    r"|(?:сначала |теперь |сейчас )?(?:я (?:буду|сделаю|обновлю|сейчас|собираюсь|должен)|давайте"
    r"|позвольте мне|мне нужно)"
    r"|(?:سأقوم|سوف أ|دعني|دعنا|أحتاج إلى))",
    re.IGNORECASE,
)
_ERROR_PAGE = re.compile(
    r"<(?:!doctype html|html|head|body|center|\?xml)\b"
    r"|(?:http(?:/[\d.]+)? )?[45]\d\d:? (?:bad|internal|service|gateway|too many|forbidden"
    r"|not found|unauthori[sz]ed|error|request|payload)"
    r"|(?:bad gateway|gateway time-?out|service unavailable|internal server error"
    r"|upstream (?:connect|request)|rate limit (?:exceeded|reached)|error: )[^\n]{0,300}\Z",
    re.IGNORECASE,
)
_CALL_MARKUP = re.compile(
    r"<(?:tool_call|tool_calls|function_calls?|function=|invoke|tool_use|\|python_tag\||\|tool)"
    r"|\[TOOL_CALLS\]|(?:functions|tools)\.\w+\(",
    re.IGNORECASE,
)
_ERROR_FIELDS = frozenset({"error", "errors", "exception", "traceback"})
_COMPLAINT_FIELDS = frozenset({"detail", "message", "msg"})
_NAME_FIELDS = frozenset({"name", "tool", "tool_name", "action", "recipient_name"})
_CALL_FIELDS = frozenset({"tool_calls", "function_call", "tool_use", "function"})
_GIVEN_FIELDS = frozenset({"arguments", "parameters", "args", "input", "tool_input"})
_BLANK = re.compile(
    r"[\W_]*+(?:none|null|n/a|nil|undefined|无|無|没有|нет|なし|없음|لا يوجد)?[\W_]*+",
    re.IGNORECASE,
)


def other_than_summary(answer: str) -> ErrorClass | None:
    """Return the class of `answer` by its form, or None where it may be a summary."""
    if is_blank(answer):
        return ErrorClass.EMPTY
    value = _json(answer)
    if _ERROR_PAGE.match(answer) or _is_error(value):
        return ErrorClass.ERROR_PAGE
    if _CALL_MARKUP.match(answer) or _is_call(value):
        return ErrorClass.TOOL_CALL
    if _REFUSAL.match(answer):
        return ErrorClass.REFUSAL
    return ErrorClass.PLAN if _PLAN.match(answer) else None


def is_blank(text: str) -> bool:
    """Return whether `text` is empty: no letter and no digit, or only a word for "nothing"."""
    return _BLANK.fullmatch(text) is not None


def unwrapped(text: str) -> str:
    """Remove what models put around an answer.

    That is one code fence, one line that announces the summary, and one JSON object whose only
    field is `summary`.
    """
    answer = _without_preamble(text.strip().lstrip("\ufeff"))
    fenced = _FENCED.fullmatch(answer)
    if fenced and ("```" not in fenced["inside"] or fenced["language"].lower() in _TEXT_FENCES):
        answer = _without_preamble(fenced["inside"].strip())
    value = _json(answer)
    if (
        isinstance(value, dict)
        and value.keys() == {"summary"}
        and isinstance(value["summary"], str)
    ):
        return value["summary"].strip()
    return answer


def _without_preamble(answer: str) -> str:
    preamble = _PREAMBLE.match(answer)
    return answer[preamble.end() :].strip() if preamble else answer


def _json(answer: str) -> Any:
    if answer[:1] not in ("{", "["):
        return None
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        return None


def _is_error(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if _ERROR_FIELDS & value.keys():
        return True
    return len(value) <= 3 and bool(_COMPLAINT_FIELDS & value.keys())


def _is_call(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_is_call(one) for one in value)
    if not isinstance(value, dict):
        return False
    if _CALL_FIELDS & value.keys():
        return True
    return bool(_NAME_FIELDS & value.keys() and _GIVEN_FIELDS & value.keys())
