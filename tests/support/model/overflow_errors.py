"""What providers say of a prompt that does not fit the window, all with status 400."""

from __future__ import annotations

OVERFLOWS: dict[str, tuple[str, int | None, int | None]] = {
    "openai chat": (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        "204308 tokens. Please reduce the length of the messages.",
        128_000,
        204_308,
    ),
    "openai chat with functions": (
        "This model's maximum context length is 4097 tokens. However, your messages resulted in "
        "7575 tokens (7000 in the messages, 575 in the functions). Please reduce the length of "
        "the messages or functions.",
        4_097,
        7_575,
    ),
    "openai responses": (
        "Your input exceeds the context window of this model. Please adjust your input and try "
        "again.",
        None,
        None,
    ),
    "openai, the prompt alone": (
        "This model's maximum context length is 8192 tokens. However, you requested 10000 tokens "
        "(9000 in the messages, 1000 in the completion).",
        8_192,
        9_000,
    ),
    "openai, nothing asked for": (
        "This model's maximum context length is 4096 tokens, however you requested 4226 tokens "
        "(4226 in your prompt; 0 for the completion). Please reduce your prompt.",
        4_096,
        4_226,
    ),
    "openai, only a total": (
        "This model's maximum context length is 131072 tokens. However, you requested 351430 "
        "tokens. Please reduce the length of the messages or completion.",
        131_072,
        351_430,
    ),
    "azure": (
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in "
        "509178 tokens. Please reduce the length of the messages.",
        272_000,
        509_178,
    ),
    "anthropic": ("prompt is too long: 212345 tokens > 200000 maximum", 200_000, 212_345),
    "anthropic with commas": (
        "prompt is too long: 202,683 tokens > 200,000 maximum",
        200_000,
        202_683,
    ),
    "anthropic, no figures": ("Prompt is too long", None, None),
    "anthropic, prompt alone": (
        "input length and `max_tokens` exceed context limit: 201000 + 20000 > 200000, decrease "
        "input length or `max_tokens` and try again",
        200_000,
        201_000,
    ),
    "anthropic, window": ("Request size exceeds model context window", None, None),
    "gemini": (
        "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
        1_048_576,
        1_200_293,
    ),
    "gemini, one figure": (
        "The input token count exceeds the maximum number of tokens allowed (1048576).",
        1_048_576,
        None,
    ),
    "vertex": (
        "Unable to submit request because the input token count is 2000000 but model only supports "
        "up to 1048576. Reduce the input token count and try again.",
        1_048_576,
        2_000_000,
    ),
    "bedrock": ("Input is too long for requested model.", None, None),
    "bedrock titan": (
        "Too many input tokens. Max input tokens: 8192, request input token count: 9000",
        8_192,
        9_000,
    ),
    "openrouter, several inputs": (
        "This endpoint's maximum context length is 65536 tokens. However, you requested about "
        "92208 tokens (60833 of text input, 10042 of tool input, 21333 in the output). Please "
        "reduce the length of either one, or use the middle-out transform.",
        65_536,
        70_875,
    ),
    "moonshot": (
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)",
        262_144,
        269_030,
    ),
    "zhipu": ("Prompt exceeds max length", None, None),
    "zhipu, chinese": ("Prompt 超长", None, None),
    "dashscope": (
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 204800]",
        204_800,
        None,
    ),
    "volcengine": ("Total tokens of image and text exceed max message tokens", None, None),
    "siliconflow": (
        "length of prompt_tokens (68957) must be less than max_seq_len (65536).",
        65_536,
        68_957,
    ),
    "siliconflow, newer": (
        "number of input tokens (204703) has exceeded max_prompt_tokens (202752) limit.",
        202_752,
        204_703,
    ),
    "minimax, whose number is a code": (
        "invalid params, context window exceeds limit (2013)",
        None,
        None,
    ),
    "mistral": (
        "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum "
        "context length",
        32_768,
        65_673,
    ),
    "groq": ("Please reduce the length of the messages or completion.", None, None),
    "cerebras": (
        "Please reduce the length of the messages or completion. Current length is 42328 while "
        "limit is 40000",
        40_000,
        42_328,
    ),
    "xai": (
        "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
        131_072,
        136_973,
    ),
    "copilot": ("prompt token count of 138898 exceeds the limit of 64000", 64_000, 138_898),
    "cohere": (
        "too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048 - "
        "received 6354. Try using a shorter prompt or a smaller max_tokens value.",
        2_048,
        6_354,
    ),
    "fireworks": (
        "The prompt is too long: 139338, model maximum context length: 131071",
        131_071,
        139_338,
    ),
    "vllm": (
        "This model's maximum context length is 4096 tokens. However, your request has 5065 input "
        "tokens. Please reduce the length of the input messages.",
        4_096,
        5_065,
    ),
    "vllm, newer": (
        "Input length (11680) exceeds model's maximum context length (4096).",
        4_096,
        11_680,
    ),
    "vllm, engine": (
        "The decoder prompt (length 34456) is longer than the maximum model length of 32768. Make "
        "sure that `max_model_len` is no smaller than the number of text tokens.",
        32_768,
        34_456,
    ),
    "vllm, counted in part": (
        "This model's maximum context length is 262144 tokens. However, you requested 128000 "
        "output tokens and your prompt contains at least 134145 input tokens, for a total of at "
        "least 262145 tokens.",
        262_144,
        None,
    ),
    "vllm, less than no room": (
        "max_tokens must be at least 1, got -7584. (parameter=max_tokens, value=-7584)",
        None,
        None,
    ),
    "sglang": (
        "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
        40_960,
        61_709,
    ),
    "sglang, memory": (
        "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).",
        59_862,
        160_062,
    ),
    "tgi": (
        "Input validation error: `inputs` must have less than 1024 tokens. Given: 1234",
        1_024,
        1_234,
    ),
    "tgi, both": (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3474 "
        "`inputs` tokens and 60 `max_new_tokens`",
        2_048,
        3_474,
    ),
    "llama.cpp": (
        "request (14429 tokens) exceeds the available context size (8192 tokens), try increasing "
        "it",
        8_192,
        14_429,
    ),
    "llama-cpp-python": ("Requested tokens (2285) exceed context window of 2048", 2_048, 2_285),
    "ollama": ("the input length exceeds the context length", None, None),
    "ollama, by a difference": (
        "prompt too long; exceeded max context length by 123 tokens",
        None,
        None,
    ),
    "lm studio": (
        "Trying to keep the first 111490 tokens when context the overflows. However, the model is "
        "loaded with context length of only 32768 tokens, which is not enough.",
        32_768,
        111_490,
    ),
    "lm studio, newer": (
        "The number of tokens to keep from the initial prompt is greater than the context length "
        "(n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length.",
        4_096,
        13_055,
    ),
    "qianfan": ("prompt tokens too long", None, None),
    "qianfan, characters": ("the max input characters is 11200", None, None),
    "xunfei": ("token数量超过上限。对话历史+问题的字数太多，需要精简输入。", None, None),
    "chinese": ("输入长度超过上下文限制", None, None),
    "chinese with figures": (
        "输入的token数(200000)超过了模型支持的最大长度131072",
        131_072,
        200_000,
    ),
    "chinese in thousands": (
        "请求的上下文长度 130000 超过模型最大上下文长度 128k",
        128_000,
        130_000,
    ),
    "litellm around anthropic": (
        "litellm.BadRequestError: litellm.ContextWindowExceededError: AnthropicError - "
        '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: '
        '209353 tokens > 199999 maximum"}}',
        199_999,
        209_353,
    ),
    "wrapped lines": (
        "Error from provider: 'This endpoint\\'s \nmaximum context length is \n131072 tokens.'",
        131_072,
        None,
    ),
    "a million": ("The maximum context length is 1M tokens, input is too long", 1_000_000, None),
    "thousands": ("Exceeds the context window of 128K tokens", 128_000, None),
}
"""Name of the case: what is said; the stated limit and tokens."""
