"""Who writes the summaries under a configuration, in words."""

from __future__ import annotations

from collections.abc import Mapping

from workers.settings import Settings
from workers.summariser.endpoints import Endpoint, resolve_chain
from workers.urls import masked_url

LOCAL = "local"
"""Name of the built-in summariser in records and documents."""


def summariser_names(settings: Settings, secrets: Mapping[str, str]) -> list[str]:
    """Names of the models in the order in which they are asked, `local` for the built-in one.

    Raises `EndpointError` where a provider's key is missing.
    """
    return [
        LOCAL if endpoint is None else endpoint.model
        for endpoint in resolve_chain(settings.auxiliary.compression, secrets)
    ]


def describe_summarisers(settings: Settings, secrets: Mapping[str, str]) -> str:
    """The same as one line for people, with where each model is asked."""
    chain = resolve_chain(settings.auxiliary.compression, secrets)
    if chain == (None,):
        return "the built-in local one, as auxiliary.compression names no model"
    return ", then ".join(map(describe_endpoint, chain))


def describe_endpoint(endpoint: Endpoint | None) -> str:
    """One model for people: name, place without secrets, whether a key is sent."""
    if endpoint is None:
        return "the built-in local one"
    key = "with a key" if endpoint.api_key else "without a key"
    return f"{endpoint.model} at {masked_url(endpoint.base_url)} ({endpoint.provider}, {key})"
