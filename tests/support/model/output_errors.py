"""What providers say, with status 400, of an output limit that is too high."""

from __future__ import annotations

OUTPUTS: dict[str, tuple[str, int | None, int | None, int | None]] = {
    "openai, the window's rest": (
        "This model's maximum context length is 8192 tokens. However, you requested 10000 tokens "
        "(6000 in the messages, 4000 in the completion)",
        8_192,
        6_000,
        2_192,
    ),
    "openai, completions": (
        "This model's maximum context length is 4097 tokens, however you requested 4162 tokens "
        "(1090 in your prompt; 3072 for the completion).",
        4_097,
        1_090,
        3_007,
    ),
    "openai, refused at exactly the limit": (
        "This model's maximum context length is 8192 tokens. However, you requested 8192 tokens "
        "(815 in the messages, 7377 in the completion).",
        8_192,
        815,
        7_376,
    ),
    "openai, the model's cap": (
        "max_tokens is too large: 6000. This model supports at most 4096 completion tokens, "
        "whereas you provided 6000.",
        None,
        None,
        4_096,
    ),
    "openai responses": (
        "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 16384, but "
        "got 32000 instead.",
        None,
        None,
        16_384,
    ),
    "anthropic, the window's rest": (
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease "
        "input length or `max_tokens` and try again",
        200_000,
        190_000,
        10_000,
    ),
    "anthropic, the model's cap": (
        "max_tokens: 128001 > 64000, which is the maximum allowed number of output tokens for "
        "claude-opus-4-5-20251101",
        None,
        None,
        64_000,
    ),
    "vertex": (
        "Unable to submit request because it has a maxOutputTokens value of 65536 but the "
        "supported range is from 1 (inclusive) to 65536 (exclusive). Update the value.",
        None,
        None,
        65_535,
    ),
    "bedrock": (
        "The maximum tokens you requested exceeds the model limit of 2048. Try again with a "
        "maximum tokens value that is lower than 2048.",
        None,
        None,
        2_048,
    ),
    "openrouter": (
        "This endpoint's maximum context length is 131072 tokens. However, you requested about "
        "138956 tokens (7884 of text input, 131072 in the output).",
        131_072,
        7_884,
        123_188,
    ),
    "deepseek": (
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        None,
        None,
        8_192,
    ),
    "dashscope": (
        "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 32768]",
        None,
        None,
        32_768,
    ),
    "volcengine": (
        "The parameter `max_completion_tokens` specified in the request are not valid: integer "
        "above maximum value, expected a value <= 12288, but got 32000 instead. Request id: 021",
        None,
        None,
        12_288,
    ),
    "zhipu through a reseller": (
        "Exceeding the limiting length: [max_tokens should be less or equal to 131072]",
        None,
        None,
        131_072,
    ),
    "groq": (
        "max_tokens for `llama-3.1-8b-instant` must be less than or equal to 8000",
        None,
        None,
        8_000,
    ),
    "groq, newer": (
        "`max_completion_tokens` must be less than or equal to `40960`, the maximum value for "
        "`max_completion_tokens` is less than the `context_window` for this model",
        None,
        None,
        40_960,
    ),
    "vllm": (
        "'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum context "
        "length is 64001 tokens and your request has 24235 input tokens (64000 > 64001 - 24235).",
        64_001,
        24_235,
        39_766,
    ),
    "vllm, counted in part": (
        "This model's maximum context length is 131072 tokens. However, you requested 128000 "
        "output tokens and your prompt contains at least 3073 input tokens, for a total of at "
        "least 131073 tokens.",
        131_072,
        None,
        None,
    ),
    "sglang": (
        "Requested token count exceeds the model's maximum context length of 40960 tokens. You "
        "requested a total of 45000 tokens: 20000 tokens from the input messages and 25000 tokens "
        "for the completion.",
        40_960,
        20_000,
        20_960,
    ),
    "tgi": (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 1512. Given: 1000 "
        "`inputs` tokens and 1024 `max_new_tokens`",
        1_512,
        1_000,
        512,
    ),
    "chinese": ("max_tokens 不能大于 8192", None, None, 8_192),
    "chinese, another": ("max_tokens 超过模型最大输出长度 4096", None, None, 4_096),
    "no figures": ("max_tokens is too large", None, None, None),
}
"""Name of the case: what is said; the stated limit, tokens and room."""
