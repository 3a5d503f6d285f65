"""The endpoints that write summaries: block `auxiliary.compression`, and its resolution."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, SecretStr, StringConstraints, ValidationInfo, field_validator

from workers.settings.base import Allowed, Block, Problem, Seconds, SettingsError, UnitName
from workers.settings.urls import http_url

Provider: TypeAlias = Literal["auto", "openai", "openrouter", "local"]

# Explicit, since the client would read a missing URL from its own environment variable.
_BASE_URLS = {
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
}
_LOCAL = "local"
_KEYS = {"openai": "OPENAI_API_KEY", "openrouter": "OPENROUTER_API_KEY"}


class EndpointSettings(Block):
    """One model that may write summaries."""

    provider: Provider = Field(
        "auto",
        description="auto: a configured URL or key, else the built-in local summariser; openai; "
        "openrouter; local.",
    )
    base_url: Annotated[str | None, Allowed("http:// or https:// URL, or null")] = Field(
        None,
        repr=False,
        description="Any OpenAI-compatible endpoint. Overrides provider, which then only chooses "
        "the key that is sent: local sends none.",
    )
    model: Annotated[str, StringConstraints(strip_whitespace=True)] = Field(
        "",
        validate_default=True,
        description="Model name as the endpoint knows it; empty for the built-in local "
        "summariser. A small, fast model that does not reason fits best.",
    )
    timeout: Seconds = Field(
        300, ge=0.1, le=3600, description="Longest wait for the first byte of an answer."
    )
    extra_body: Mapping[str, JsonValue] = Field(
        default_factory=dict,
        repr=False,
        description="Fields added to each request as they are.",
    )
    context_length: Annotated[int | None, UnitName("tokens")] = Field(
        None,
        ge=1024,
        le=100_000_000,
        description="Window of the summarising model; null when unknown.",
    )
    requests_per_minute: Annotated[int | None, UnitName("requests")] = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Requests that all workers together send to the model in a minute; null for "
        "no limit.",
    )
    tokens_per_minute: Annotated[int | None, UnitName("tokens")] = Field(
        None,
        ge=1,
        le=1_000_000_000,
        description="Tokens, answers included, that they use in a minute; null for no limit.",
    )

    @field_validator("base_url")
    @classmethod
    def _is_a_url(cls, value: str | None) -> str | None:
        return http_url(value) if value else None

    @field_validator("model")
    @classmethod
    def _endpoints_need_a_model(cls, value: str, info: ValidationInfo) -> str:
        if value:
            return value
        if info.data.get("base_url"):
            raise ValueError("base_url is set, so name the model that it serves")
        if (provider := info.data.get("provider")) in _BASE_URLS:
            raise ValueError(f"provider is {provider}, so name one of its models")
        return value


class FallbackSettings(EndpointSettings):
    """A model that is called when those before it failed."""

    @field_validator("model")
    @classmethod
    def _fallbacks_need_a_model(cls, value: str, info: ValidationInfo) -> str:
        if not value and info.data.get("provider") == "auto":
            raise ValueError("name a model, or set provider: local")
        return value


class SummariserSettings(EndpointSettings):
    """The model that writes summaries, and its fallbacks."""

    fallback_chain: Annotated[
        tuple[FallbackSettings, ...],
        Field(strict=False),
        Allowed(f"list of blocks with {', '.join(EndpointSettings.model_fields)}"),
    ] = Field(
        default_factory=tuple,
        description="Models called in this order when the one above failed.",
    )

    @field_validator("fallback_chain")
    @classmethod
    def _chains_have_a_first(
        cls, value: tuple[FallbackSettings, ...], info: ValidationInfo
    ) -> tuple[FallbackSettings, ...]:
        if value and info.data.get("model") == "":
            raise ValueError(
                "without a model the local summariser serves and never falls back; name a model"
            )
        return value


class EndpointError(SettingsError):
    """A missing key of a configured provider. Set it in the environment, or change the provider."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address and parameters of a model. Its `repr` shows neither URL, key nor body.

    `provider` is `openai`, `openrouter` or `custom`. `api_key` is None when none is sent. `timeout`
    is the limit for the first byte in seconds, `context_length` the model's window in tokens, if
    known. `requests_per_minute` and `tokens_per_minute` limit all workers together, None for no
    limit.
    """

    provider: str
    model: str
    base_url: str = field(repr=False)
    api_key: SecretStr | None = None
    timeout: float = 300
    extra_body: Mapping[str, JsonValue] = field(default_factory=dict, repr=False)
    context_length: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


def resolve_endpoint(
    settings: EndpointSettings,
    secrets: Mapping[str, str],
    *,
    key: str = "auxiliary.compression",
) -> Endpoint | None:
    """Return the endpoint that `settings` name, None for the built-in local summariser.

    `secrets` may hold OPENAI_API_KEY and OPENROUTER_API_KEY, the only source of keys. With
    `provider: auto` and no URL, the provider that has a key is used; if both have one, OpenRouter
    gets model names with a slash. Raises `EndpointError` when the configured provider's key is
    missing; `key` is the dotted path of `settings`, for its message.
    """
    if settings.base_url:
        provider = _key_owner(settings.provider, settings.base_url)
        shown = settings.provider if settings.provider in _BASE_URLS else "custom"
        return _endpoint(settings, shown, settings.base_url, _secret(secrets, provider))
    provider = settings.provider
    if provider == "auto":
        provider = _provider_with_key(settings.model, secrets)
    if provider == "local" or not settings.model:
        return None
    api_key = _secret(secrets, provider)
    if api_key is None:
        raise EndpointError((_missing_key(key, provider),))
    return _endpoint(settings, provider, _BASE_URLS[provider], api_key)


def resolve_chain(
    settings: SummariserSettings, secrets: Mapping[str, str]
) -> tuple[Endpoint | None, ...]:
    """Return the endpoints in the order in which they are called, at least one.

    None is the local summariser, which never fails, so nothing follows it. Raises `EndpointError`
    like `resolve_endpoint`.
    """
    path = "auxiliary.compression"
    chain = [resolve_endpoint(settings, secrets, key=path)]
    for index, fallback in enumerate(settings.fallback_chain):
        if chain[-1] is None:
            break
        place = f"{path}.fallback_chain[{index}]"
        chain.append(resolve_endpoint(fallback, secrets, key=place))
    return tuple(chain)


def chain_fingerprint(settings: SummariserSettings) -> int:
    """Return a number that is the same for the same models in the same order, in every process.

    It covers models, their URLs and fields added to requests, but not keys, user and password in a
    URL, and time limits. A failure with another summariser suppresses nothing.
    """
    links: list[str] = []
    for link in (settings, *settings.fallback_chain):
        links.append(_identity(link))
        if links[-1] == _LOCAL:
            break
    return fingerprint(*links)


def _identity(settings: EndpointSettings) -> str:
    if not settings.base_url and (settings.provider == "local" or not settings.model):
        return _LOCAL
    parts = [
        settings.provider,
        _without_user(settings.base_url or ""),
        settings.model,
        settings.context_length,
        settings.extra_body,
    ]
    return json.dumps(parts, sort_keys=True, default=dict)


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _endpoint(
    settings: EndpointSettings, provider: str, base_url: str, api_key: SecretStr | None
) -> Endpoint:
    return Endpoint(
        provider=provider,
        model=settings.model,
        base_url=base_url,
        api_key=api_key,
        timeout=settings.timeout,
        extra_body=settings.extra_body,
        context_length=settings.context_length,
        requests_per_minute=settings.requests_per_minute,
        tokens_per_minute=settings.tokens_per_minute,
    )


def _key_owner(provider: Provider, base_url: str) -> str:
    if provider != "auto":
        return provider
    host = urlsplit(base_url).hostname or ""
    ours = host == "openrouter.ai" or host.endswith(".openrouter.ai")
    return "openrouter" if ours else "openai"


def _provider_with_key(model: str, secrets: Mapping[str, str]) -> Provider:
    openai = _secret(secrets, "openai") is not None
    openrouter = _secret(secrets, "openrouter") is not None
    if openrouter and (not openai or "/" in model):
        return "openrouter"
    return "openai" if openai else "local"


def _secret(secrets: Mapping[str, str], provider: str) -> SecretStr | None:
    # Secrets read from mounted files often end in a line break.
    text = secrets.get(_KEYS.get(provider, ""), "").strip()
    return SecretStr(text) if text else None


def _missing_key(key: str, provider: str) -> Problem:
    return Problem(
        key=f"{key}.provider",
        message=f"{provider} needs a key: set {_KEYS[provider]} in the environment, or choose "
        "provider: local",
        given=provider,
    )


def route_name(model: str, base_url: str) -> str:
    """Return `MODEL at HOST`, with the port where the URL has one.

    User, password, path and query of the URL are left out, since they may hold a key.
    """
    host = urlsplit(base_url).netloc.rpartition("@")[2].lower()
    return f"{model} at {host}"


def fingerprint(*parts: str) -> int:
    """Return a number of 63 bits, the same for the same parts in every process and version."""
    digest = sha256("\x00".join(parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") >> 1
