"""The summariser that the configuration asks for, now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Lock

from workers.endpoints import Endpoint, EndpointError, resolve_chain
from workers.local_summariser import LocalSummariser
from workers.settings import Settings
from workers.settings_file import SettingsSource
from workers.summarising import ErrorClass, Reply, Summariser, SummariserError, SummaryRequest

log = logging.getLogger(__name__)


class FollowingSummariser:
    """Asks the configured models in their order, and the local summariser where there is none.

    Follows changes of the configuration between calls. `secrets` may hold the models' keys.
    """

    def __init__(self, settings: SettingsSource, secrets: Mapping[str, str]) -> None:
        self._settings = settings
        self._secrets = secrets
        self._lock = Lock()
        self._built_for: object = None
        self._chain: tuple[Summariser, ...] = ()
        self._retired: list[Summariser] = []

    @property
    def model(self) -> str:
        """Name of the first model, `local` for the built-in one, `none` where a key is missing."""
        try:
            return self._current()[0].model
        except SummariserError:
            return "none"

    @property
    def input_chars(self) -> int:
        """What the smallest window of the chain can take, so that any of it can answer."""
        try:
            return min(summariser.input_chars for summariser in self._current())
        except SummariserError:
            return LocalSummariser().input_chars

    def summarise(self, request: SummaryRequest, stop: Callable[[], bool]) -> Reply:
        """Answer with the first model of the chain that can; the last one's error counts."""
        chain = self._current()
        for summariser in chain[:-1]:
            try:
                return summariser.summarise(request, stop)
            except SummariserError as error:
                log.warning("summariser %s failed (%s), next one asked", summariser.model, error)
        return chain[-1].summarise(request, stop)

    def close(self) -> None:
        """Close every model's client."""
        with self._lock:
            for summariser in (*self._chain, *self._retired):
                summariser.close()
            self._chain, self._retired, self._built_for = (), [], None

    def _current(self) -> tuple[Summariser, ...]:
        settings = self._settings.current()
        wanted = (
            settings.auxiliary,
            settings.compression.context_timeout_seconds,
            settings.compression.context_total_ceiling_seconds,
        )
        with self._lock:
            if self._built_for != wanted:
                chain = build_chain(settings, self._secrets)
                # Calls of other threads may still use the old ones, so they close at the end.
                self._retired.extend(self._chain)
                self._chain, self._built_for = chain, wanted
            return self._chain


def build_chain(settings: Settings, secrets: Mapping[str, str]) -> tuple[Summariser, ...]:
    """Make the summarisers that `settings` name, in the order in which they are asked.

    Raises `SummariserError` of class AUTH where a provider's key is missing or useless.
    """
    try:
        chain = resolve_chain(settings.auxiliary.compression, secrets)
        return tuple(_summariser(endpoint, settings) for endpoint in chain)
    except EndpointError as error:
        raise SummariserError(ErrorClass.AUTH, str(error)) from error
    except ValueError as error:
        # A key that no header can carry, or a URL that is none.
        raise SummariserError(ErrorClass.AUTH, "the model's URL or key cannot be used") from error


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
        summary_tokens=compression.micro_compact_defrag_threshold_tokens * 3 // 2,
    )
