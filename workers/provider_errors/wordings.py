"""Error texts of providers for a request, a prompt or a requested output that is too large.

The only place that knows them: those of OpenAI, Azure, Anthropic, Gemini, Bedrock, OpenRouter,
DeepSeek, Moonshot, Zhipu, DashScope, Volcengine, SiliconFlow, MiniMax, Mistral, Groq, Cerebras,
xAI, Cohere, Copilot, LiteLLM, vLLM, SGLang, TGI, llama.cpp, Ollama and LM Studio. Every pattern
has bounded repetitions and is applied to text that was cut, so no message takes long.
"""

from __future__ import annotations

import re

MAX_CHARS = 8_000
"""Characters of a message that are read: the reason comes first, the request may follow."""


def own_words(message: str) -> str:
    """Return the part of `message` that is the provider's: on one line, cut to `MAX_CHARS`.

    A complaint about malformed JSON or tool arguments is left out with everything after it, since
    that quotes the request.
    """
    text = " ".join(message[:MAX_CHARS].split())
    complaint = _MALFORMED.search(text)
    return text[: complaint.start()] if complaint else text


def is_long_context_refusal(text: str) -> bool:
    """Return whether the account may not send long contexts, or not so many."""
    return bool(_LONG_CONTEXT.search(text))


def is_payload_too_large(text: str) -> bool:
    """Return whether bytes, characters or the number of messages are too many."""
    return bool(_PAYLOAD.search(text))


def is_throttling(text: str) -> bool:
    """Return whether waiting or paying helps: rate limits, quotas, credits."""
    return bool(_THROTTLED.search(text))


def is_context_overflow(text: str) -> bool:
    """Return whether prompt, or prompt and output together, exceed the window."""
    return bool(_OVERFLOW.search(text))


def is_output_too_large(text: str) -> bool:
    """Return whether the requested limit on the output is too high."""
    return bool(_OUTPUT.search(text))


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_MALFORMED = _any(
    r"malformed",
    r"failed_generation",
    r"(?:invalid|unterminated|not valid|failed to (?:parse|decode)|(?:cannot|could not) parse)"
    r"[^.|{\[]{0,40}(?:json|\b(?:tool|function)(?:s|[ _](?:call|use|argument)s?)?\b)",
    r"json[^.|{\[]{0,20}(?:decod|pars|invalid)",
)

_LONG_CONTEXT = _any(
    r"extra usage[^.]{0,40}(?:long|1m)[ -]context",
    r"long[ -]context[^.]{0,60}(?:\bbeta\b|extra usage|rate limit)",
    r"long[ -]context[^.]{0,60}not (?:yet )?(?:available|enabled)",
    r"rate limit[^.]{0,60}long[ -]context",
)

_PAYLOAD = _any(
    r"request_too_large",
    r"(?:request|payload|body|entity)(?: entity| body| payload| size)?(?: is| was)? too large",
    r"request (?:payload |body )size exceeds",
    r"request exceeds the maximum (?:allowed )?size",
    r"maximum request body size",
    r"max bytes to buffer",
    r"string value length \(\d{1,12}\) exceeds",
    r"'(?:messages|input)(?:\[\d{1,6}\](?:\.(?:content|text|output)(?:\[\d{1,6}\])?){0,3})?': "
    r"(?:string|array) too long",
    r"'\$\.(?:messages|input)' is too long",
    r"请求体?(?:过大|太大)",
)

_THROTTLED = _any(
    r"rate.?limit",
    r"too many requests",
    r"please wait",
    r"(?:try again|retry) (?:later|in\b|after)",
    r"\bper[ -](?:minute|min|day|hour|second)\b",
    r"\b[rt]p[md]\b",
    r"\b(?:daily|weekly|monthly)\b",
    r"throttl",
    r"quota",
    r"insufficient[_ ](?:credit|balance|fund)|can only afford|more credits",
    r"频繁|频率|速率|限流|并发|余额|配额|每分钟|每日|每天",
)

_OVERFLOW = _any(
    r"context[ _](?:length|window|size)[ _]exceed",
    r"exceed_context_size|model_max_prompt_tokens_exceeded",
    r"tokens_too_long|token[ _]limit[ _]exceeded",
    r"maximum (?:context|model|prompt|input|sequence) length",
    r"maximum number of (?:input )?tokens|maximum allowed (?:input )?length",
    r"max(?:imum)?[ _]input[ _](?:tokens|characters|length)",
    r"max_(?:prompt_tokens|seq_len|model_len)|max message tokens",
    r"(?:exceed|overflow|beyond|(?:larger|longer|greater|bigger|more) than)[^.]{0,60}context",
    r"context (?:length|window|size|limit)[^.]{0,40}(?:exceed|overflow|full|reached|too)",
    r"context the overflows|context length of only",
    r"exceeded model token limit|exceed[^.]{0,20} configured limit of [\d,]{1,12} tokens",
    r"(?<!image )(?:prompt|input|request|messages?|conversation) (?:is|are|was) too (?:long|large)",
    r"(?<!image )(?:prompt|input|request|context)(?: tokens)? too (?:long|large)",
    r"too many (?:input |prompt )?tokens",
    r"exceeds? (?:the )?(?:max(?:imum)? )?(?:token|input|prompt)s? (?:limit|length)",
    r"(?:input|prompt) (?:length|token count)[^.]{0,60}(?:exceed|should be|must be|limit|up to)",
    r"prompt exceeds max length|`?inputs`? must have (?:less|fewer) than",
    r"reduce the length of (?:the (?:messages|prompt|input)|either one|the input)",
    # The room that is left for the output came out negative, so the prompt alone is too long.
    r"max_tokens must be at least 1, got -(?!1\b)\d",
    r"上下文[^。]{0,20}(?:超|过长|过大)",
    r"(?:输入|提示词?|prompt|消息|messages?|token)[^。]{0,20}(?:超长|过长|超过|超出)",
    r"(?:超过|超出)[^。]{0,12}(?:上下文|最大(?:输入)?长度|最大输入|最大\s?token)",
)

_OUTPUT_NAME = (
    r"(?:max_?(?:completion_?|output_?|new_?)?tokens(?:_to_sample)?\b"
    r"|maximum tokens you requested|最大输出)"
)
_OUTPUT = _any(
    _OUTPUT_NAME + r"(?:[^.。\n]|\.(?=\S)){0,80}?(?:too (?:large|big|high)"
    r"|(?:less|smaller|lower) (?:than )?(?:or equal|the)|(?<!be )(?:greater|larger|higher) than"
    r"|(?:can|must|should|may) ?not exceed|exceeds?\b|above maximum|supported range"
    r"|should be \[|must be between|<=|≤|超过|超出|[不]能大于|小于等于|范围)",
    r"range of " + _OUTPUT_NAME,
    r"max_?\w{0,12}tokens: \d{1,12} > \d{1,12}, which is the maximum",
    r"at most \d{1,12} (?:completion|output) tokens",
)
