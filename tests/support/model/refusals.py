"""What providers say that shrinking the session would not answer."""

from __future__ import annotations

REFUSALS: dict[str, tuple[int | None, str]] = {
    "malformed tool arguments": (400, "invalid tool call arguments"),
    "tool arguments that speak of a context": (
        400,
        'Failed to parse tool call arguments as JSON: {"text": "prompt is too long: 9 tokens > 8"}',
    ),
    "tool arguments that speak of it plainly": (
        400,
        "Invalid function arguments: the context length is exceeded, said the user",
    ),
    "a failed generation": (
        400,
        "Failed to call a function. See failed_generation: the prompt is too long",
    ),
    "an orphan result": (
        400,
        "messages.3: `tool_use` ids were found without `tool_result` blocks immediately after",
    ),
    "a tool id that is too long": (
        400,
        "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum "
        "length 40, but got a string with length 51 instead.",
    ),
    "too many tools": (
        400,
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got 140",
    ),
    "another integer": (
        400,
        "Invalid 'n': integer above maximum value. Expected a value <= 128, but got 300 instead.",
    ),
    "another parameter": (400, "Unknown parameter: 'context_length'."),
    "a parameter by another name": (
        400,
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead.",
    ),
    "no output asked for": (400, "max_tokens must be at least 1"),
    "no output asked for, none": (400, "max_tokens must be at least 1, got 0."),
    "no output asked for, unlimited": (400, "max_tokens must be at least 1, got -1."),
    "too little output": (
        400,
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but "
        "got 1 instead.",
    ),
    "output used up": (
        400,
        "Could not finish the message because max_tokens or model output limit was reached. "
        "Please try again with higher max_tokens.",
    ),
    "thinking budget": (
        400,
        "`max_tokens` must be greater than `thinking.budget_tokens`. See "
        "https://docs.example.com/extended-thinking#max-tokens-and-context-window-size",
    ),
    "no max_tokens": (400, "max_tokens: Field required"),
    "an image": (400, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum"),
    "an image as input": (400, "Invalid image: the image input is too large"),
    "an embedding's schema": (
        400,
        "Malformed input request: #/texts/41: expected maxLength: 2048, actual: 2312",
    ),
    "a rate limit": (
        429,
        "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit "
        "30000, Used 29000, Requested 1500. Please try again in 1s.",
    ),
    "a rate limit in tokens": (
        429,
        "This request would exceed your organization's rate limit of 40,000 input tokens per "
        "minute. Reduce the prompt length or the maximum tokens requested.",
    ),
    "a rate limit without a status": (
        None,
        "Rate limit exceeded: too many input tokens per minute",
    ),
    "throttling": (429, "Too many tokens, please wait before trying again."),
    "throttling without a status": (
        None,
        "ThrottlingException: Too many tokens, please wait before trying again.",
    ),
    "throttling as a server error": (503, "Too many tokens per day, please wait"),
    "throttling, chinese": (400, "每分钟输入token数超过限制"),
    "a quota": (429, "You exceeded your current quota, please check your plan and billing"),
    "a quota of input tokens": (
        429,
        "Quota exceeded for metric: generate_content_free_tier_input_token_count, limit: 250000",
    ),
    "credits": (
        402,
        "This request requires more credits, or fewer max_tokens. You requested up to 65535 "
        "tokens, but can only afford 1234",
    ),
    "a budget of prompt tokens": (402, "Prompt tokens limit exceeded: 230799 > 91442."),
    "a key": (401, "prompt is too long"),
    "a model": (404, "maximum context length is 8192 tokens"),
    "an overloaded server": (529, "Overloaded"),
    "a server error": (500, "Internal server error"),
    "an illegal parameter": (400, "max_tokens参数非法。请检查文档。"),
    "nothing": (None, ""),
}
"""Name of the case: status and what is said."""
