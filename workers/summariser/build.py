"""The summariser that the configuration asks for, now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock

from workers.settings import Settings
from workers.settings_file import SettingsSource
from workers.summariser.chain import Link, ask_chain, why_closed
from workers.summariser.contract import (
    ErrorClass,
    Reply,
    Summariser,
    SummariserError,
    SummaryRequest,
)
from workers.summariser.endpoints import Endpoint, EndpointError, chain_fingerprint, resolve_chain
from workers.summariser.extractive.local_summariser import LocalSummariser
from workers.summariser.gate import Gate
from workers.summariser.rates import Limits
from workers.summariser.routes import route_name


class FollowingSummariser:
    """Asks the configured models in their order, and the local summariser where there is none.

    Follows changes of the configuration between calls. `secrets` may hold the models' keys. The
    `gate` is asked before each request to a model; None asks nobody.
    """

    def __init__(
        self, settings: SettingsSource, secrets: Mapping[str, str], gate: Gate | None = None
    ) -> None:
        self._settings = settings
        self._secrets = secrets
        self._gate = gate
        self._lock = Lock()
        self._built_for: object = None
        self._chain: tuple[Link, ...] = ()
        self._retired: list[Link] = []

    @property
    def model(self) -> str:
        """Name of the first model, `local` for the built-in one, `none` where a key is missing."""
        try:
            return self._current()[0].summariser.model
        except SummariserError:
            return "none"

    @property
    def fingerprint(self) -> int:
        """That of the configured chain, which gateways compute without making a client."""
        return chain_fingerprint(self._settings.current().auxiliary.compression)

    def room(self, summary_tokens: int) -> int:
        """What the smallest window of the chain can take, so that any of it can answer."""
        try:
            return min(link.summariser.room(summary_tokens) for link in self._current())
        except SummariserError:
            return LocalSummariser().room(summary_tokens)

    def summarise(self, request: SummaryRequest, stop: Callable[[], bool]) -> Reply:
        """Answer with the first model of the chain that can; see `ask_chain`."""
        return ask_chain(self._current(), request, stop, self._gate)

    def why_closed(self) -> SummariserError | None:
        """Why no model may be asked now; None where one may."""
        try:
            return why_closed(self._current(), self._gate)
        except SummariserError:
            return None

    def close(self) -> None:
        """Close every model's client."""
        with self._lock:
            for link in (*self._chain, *self._retired):
                link.summariser.close()
            self._chain, self._retired, self._built_for = (), [], None

    def _current(self) -> tuple[Link, ...]:
        settings = self._settings.current()
        wanted = (
            settings.auxiliary,
            settings.compression.context_timeout_seconds,
            settings.compression.context_total_ceiling_seconds,
        )
        with self._lock:
            if self._built_for != wanted:
                chain = _links(settings, self._secrets)
                # Calls of other threads may still use the old ones, so they close at the end.
                self._retired.extend(self._chain)
                self._chain, self._built_for = chain, wanted
            return self._chain


def build_chain(settings: Settings, secrets: Mapping[str, str]) -> tuple[Summariser, ...]:
    """Make the summarisers that `settings` name, in the order in which they are asked.

    Raises `SummariserError` of class AUTH where a provider's key is missing or useless.
    """
    return tuple(link.summariser for link in _links(settings, secrets))


def _links(settings: Settings, secrets: Mapping[str, str]) -> tuple[Link, ...]:
    try:
        chain = resolve_chain(settings.auxiliary.compression, secrets)
        return tuple(_link(endpoint, settings) for endpoint in chain)
    except EndpointError as error:
        raise SummariserError(ErrorClass.AUTH, str(error), requests=0) from error
    except ValueError as error:
        # A key that no header can carry, or a URL that is none.
        told = "the model's URL or key cannot be used"
        raise SummariserError(ErrorClass.AUTH, told, requests=0) from error


def _link(endpoint: Endpoint | None, settings: Settings) -> Link:
    summariser = _summariser(endpoint, settings)
    if endpoint is None:
        return Link(summariser, summariser.model)
    return Link(
        summariser,
        route_name(endpoint.model, endpoint.base_url),
        Limits(endpoint.requests_per_minute, endpoint.tokens_per_minute),
        settings.compression.context_total_ceiling_seconds,
    )


def _summariser(endpoint: Endpoint | None, settings: Settings) -> Summariser:
    if endpoint is None:
        return LocalSummariser()
    # Half a second and 48 MB: only processes that ask a model pay for it.
    from workers.summariser.client import OpenAISummariser  # noqa: PLC0415

    compression = settings.compression
    return OpenAISummariser(
        model=endpoint.model,
        base_url=endpoint.base_url,
        api_key=endpoint.api_key.get_secret_value() if endpoint.api_key else "",
        first_byte_seconds=endpoint.timeout,
        idle_seconds=compression.context_timeout_seconds,
        total_seconds=compression.context_total_ceiling_seconds,
        extra_body=endpoint.extra_body,
        context_length=endpoint.context_length,
    )
