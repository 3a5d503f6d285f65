"""The token figures in a provider's error message: its limit, and the sizes that it counted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_TOKENS = 10_000_000
"""A figure above this is not a window but a count of bytes, an id or a mistake."""

_SCALES = {"k": 1_000, "m": 1_000_000, "万": 10_000}

_N = (
    r"(\d{1,3}(?:[,_，]\d{3}){1,3}(?!\d)"
    r"|\d{1,12}(?:\.\d{1,3})?(?!\d)(?:\s?(?:[km](?![a-z])|万))?)"
)
# What may stand between a name and its number; "exceeds" or "by" may not, since the number after
# them is a code or a difference ("context window exceeds limit (2013)").
_IS = r"(?:[\s:：=('\"`\\\[]|is|of|only|at|to|allowed|为|是){0,7}"
_OUTPUT_NAME = (
    r"(?:max_?(?:completion_?|output_?|new_?)?tokens(?:_to_sample)?|completion_tokens|num_predict)"
)
_NEAR = r"(?:[^.。\n]|\.(?=\S)){0,80}?"


@dataclass(frozen=True, slots=True)
class StatedFigures:
    """The figures that a message states, in tokens; None where it does not.

    `limit` is for a whole request, `prompt` and `output` are what was requested, `total` both
    together. `at_least` says that the provider stopped counting the prompt at `prompt`.
    """

    limit: int | None = None
    prompt: int | None = None
    output: int | None = None
    total: int | None = None
    at_least: bool = False


def figures(text: str) -> StatedFigures:
    """Read the figures of an error message of at most some thousand characters."""
    if match := _SUM.search(text):
        prompt, output, limit = (_tokens(group) for group in match.groups())
        return StatedFigures(limit=limit, prompt=prompt, output=output)
    prompt, output = _parts(text)
    return StatedFigures(
        limit=_first(_LIMITS, text),
        prompt=_first(_PROMPTS, text) if prompt is None else prompt,
        output=_first(_OUTPUTS, text) if output is None else output,
        total=_first(_TOTALS, text),
        at_least=bool(_AT_LEAST.search(text)),
    )


def output_cap(text: str) -> int | None:
    """Return the largest output that the model ever produces, if the message states it."""
    if match := _EXCLUSIVE_CAP.search(text):
        above = _tokens(match[1])
        return above - 1 if above and above > 1 else None
    return _first(_CAPS, text)


def over_allowance(text: str) -> tuple[int, int] | None:
    """Return the tokens per minute that are allowed and those that this request needs, if more."""
    match = _ALLOWANCE.search(text)
    if match is None:
        return None
    allowed, requested = _tokens(match[1]), _tokens(match[2])
    if allowed is None or requested is None or requested <= allowed:
        return None
    return allowed, requested


def _parts(text: str) -> tuple[int | None, int | None]:
    """Return prompt and output where each part of a request is counted; None unless both are.

    Such as "(6000 in the messages, 200 in the functions, 4000 in the completion)".
    """
    counted = [(match[2].lower(), _tokens(match[1])) for match in _PART.finditer(text)]
    prompt = [count or 0 for part, count in counted if part not in _OUTPUT_PARTS]
    output = [count or 0 for part, count in counted if part in _OUTPUT_PARTS]
    return (sum(prompt), sum(output)) if prompt and output else (None, None)


def _first(patterns: Iterable[re.Pattern[str]], text: str) -> int | None:
    matches = (pattern.search(text) for pattern in patterns)
    return next((_tokens(match[1]) for match in matches if match), None)


def _tokens(written: str) -> int | None:
    digits = re.sub(r"[,_，\s]", "", written).lower()
    count = round(float(digits.rstrip("km万")) * _SCALES.get(digits[-1], 1))
    return count if 0 < count <= MAX_TOKENS else None


def _compiled(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


_SUM = re.compile(rf"{_N} ?\+ ?{_N} ?> ?{_N}", re.IGNORECASE)
_PART = re.compile(
    rf"{_N} (?:tokens? )?(?:in|of|for|from) (?:the |your )?(?:(?:text|image|audio|tool|input) )?"
    r"(messages?|prompt|functions?|tools?|input|completion|output)\b",
    re.IGNORECASE,
)
_OUTPUT_PARTS = frozenset({"completion", "output"})
_AT_LEAST = re.compile(r"contains at least \d", re.IGNORECASE)
_ALLOWANCE = re.compile(rf"too large.{{0,300}}?\blimit:? {_N}, requested:? {_N}", re.IGNORECASE)
_EXCLUSIVE_CAP = re.compile(
    rf"maxOutputTokens value of .{{0,60}}?\(inclusive\) to {_N} \(exclusive\)", re.IGNORECASE
)

_LIMITS = _compiled(
    rf"`?inputs`? tokens \+ `?max_new_tokens`? must be <= {_N}",
    rf"max(?:imum)?[ _](?:context|model|prompt|sequence|seq|message)[ _]"
    rf"(?:length|size|window|len|limit|tokens?){_IS}{_N}",
    rf"max(?:imum)?[ _](?:allowed )?(?:total )?input[ _](?:length|size|tokens?){_IS}{_N}",
    rf"maximum number of (?:input )?tokens{_IS}{_N}",
    rf"maximum allowed length{_IS}{_N}",
    rf"(?:>|with) {_N} (?:tokens? )?max(?:imum)?\b",
    rf"context[ _](?:length|size|window|limit){_IS}{_N}",
    rf"n_ctx{_IS}{_N}",
    rf"token limit{_IS}{_N}",
    rf"supports? (?:only )?up to {_N}",
    rf"`?inputs`? must have (?:less|fewer) than {_N}",
    rf"range of input length should be \[\d{{1,4}}, ?{_N}",
    rf"limit (?:of|is) {_N}",
    rf"cannot exceed {_N}",
    rf"(?:最大|上限|限制|最多|超过|超出)[^\d。；]{{0,16}}{_N}",
)
_PROMPTS = _compiled(
    rf"prompt contains (?:at least )?{_N}",
    rf"\bhas {_N} input tokens",
    rf"given:? {_N} `?inputs`?",
    rf"(?:prompt|input|messages?|conversation|context) (?:is|are) too (?:long|large)"
    rf"[: (]{{1,3}}{_N}",
    rf"(?<!max[ _])(?<!maximum )(?<!allowed )(?:input|prompt)[ _]"
    rf"(?:tokens?|length|count)(?: count)?[\s:=('\"]{{0,4}}(?:(?:is|of) )?{_N}",
    rf"(?:input|request|prompt|messages?) \((?:length )?{_N}",
    rf"request contains {_N}",
    rf"resulted in {_N}",
    rf"keep the first {_N}",
    rf"n_keep{_IS}{_N}",
    rf"current length is {_N}",
    rf"you supplied {_N}",
    rf"(?:received|given:?) {_N}",
    rf"(?:输入|上下文|提示词|消息|tokens?)[^\d。，；]{{0,10}}{_N}(?=[^。]{{0,12}}超)",
)
_OUTPUTS = _compiled(
    rf"requested {_N} output tokens",
    rf"{_OUTPUT_NAME}.{{0,40}}? too large: {_N}",
    rf"\band {_N} `?max_new_tokens",
    rf"{_OUTPUT_NAME}[`'\"]?[ =:(]{{1,3}}{_N}",
)
_TOTALS = _compiled(rf"requested(?: tokens)?(?: about| a total of)?[\s:(]{{1,3}}{_N}")
_CAPS = _compiled(
    rf"at most {_N} (?:completion|output) tokens",
    rf"max_tokens: \d{{1,12}} > {_N}, which is the maximum allowed number of output tokens",
    rf"(?<!\+ )(?<!\+ `){_OUTPUT_NAME}\b{_NEAR}(?:(?:less|smaller|lower)(?: than)? or equal to"
    rf"|<=|≤|at most|(?:cannot|must not|should not|may not) exceed|between \d{{1,4}} and) `?{_N}",
    rf"range of {_OUTPUT_NAME} (?:is|should be) \[\d{{1,4}}, ?{_N}",
    rf"{_OUTPUT_NAME}\b.{{0,80}}? above maximum value[.,] expected a value <= {_N}",
    rf"maximum tokens you requested exceeds the model limit of {_N}",
    rf"{_OUTPUT_NAME}[^。\n]{{0,20}}?(?:小于(?:或)?等于|[大超][于过出]|[为在])[^\d。；]{{0,12}}"
    rf"(?:\[\d{{1,4}}[,，] ?)?{_N}",
)
