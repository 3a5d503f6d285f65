"""Everything that decides about the compaction of a session, read in one snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from afterturn.invocation import find_session
from afterturn.overview import Fullness
from storage import endpoints, guards
from storage.conversations import events, messages, pruned, summaries
from storage.conversations.messages import Amount
from storage.conversations.micro_reads import read_state
from storage.conversations.sessions import SessionRecord
from storage.conversations.summaries import SummaryKind, SummaryRecord
from storage.endpoints import EndpointState
from storage.engine import Database
from storage.guards import GuardName, GuardRecord
from storage.jobs import job_records
from storage.jobs.job_records import JobRecord
from workers.batch.plan import Circumstances, NothingToCompact, plan_batch
from workers.batch.preview import Portions
from workers.batch.span import CompactionOptions, divide
from workers.micro.plan import why_nothing_due
from workers.policy.calibration import Calibration, current_prompt
from workers.policy.threshold import (
    ManagedBy,
    Threshold,
    managed_by,
    region_rules,
    server_threshold,
)
from workers.policy.triggers import RULES, Trigger
from workers.prune.commit import PRUNE_RULES
from workers.prune.plan import NothingToPrune, PrunePlan, plan_prune
from workers.settings import CompressionSettings, Settings
from workers.summariser.endpoints import EndpointError, chain_fingerprint, resolve_chain, route_name
from workers.turn.due import Load, Restraints, TriggerStatus, nobody_answers, trigger_statuses

_AUTOMATIC = RULES[Trigger.AFTER_RESPONSE]
"""Regions are shown as the commonest automatic trigger sees them."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model of the chain: its name in records, None for the built-in summariser, and its
    state, None if it was never asked."""

    route: str | None
    state: EndpointState | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """A session and what is decided about it now.

    `prompt_tokens` is what the provider counted for the present view, None if it reported nothing.
    `parts` is None if the window leaves no room. `batch_idle` and `micro_idle` say why a batch or
    a micro pass would have nothing to do, None if it has. `unknown_models` says why the chain is
    not known here. `short` is what the view shows short, in messages and the tokens that this
    saves, `prune` what a pruning pass would do. `now` is the database's time in milliseconds
    since 1970.
    """

    session: SessionRecord
    fullness: Fullness
    calibration: Calibration
    prompt_tokens: int | None
    parts: Portions | None
    batch_idle: str | None
    micro_idle: str | None
    shown: tuple[SummaryRecord, ...]
    open_jobs: tuple[JobRecord, ...]
    held: Mapping[GuardName, GuardRecord]
    statuses: tuple[TriggerStatus, ...]
    models: tuple[Model, ...]
    unknown_models: str | None
    short: Amount
    prune: PrunePlan | NothingToPrune
    by: ManagedBy | None
    server_tokens: int | None
    now: int

    @property
    def estimate(self) -> int:
        """What the provider would count for the present view, estimated."""
        return self.calibration.estimate(self.session.live_tokens)

    @property
    def placeholder(self) -> SummaryRecord | None:
        """The placeholder that is shown, None if there is none."""
        found = (one for one in self.shown if one.kind is SummaryKind.PLACEHOLDER)
        return next(found, None)


def read_explanation(
    database: Database,
    settings: Settings,
    secrets: Mapping[str, str],
    *,
    owner: str,
    session_id: str,
) -> Explanation:
    """Read a session in one snapshot. Raises `SessionNotFound`."""
    compression = settings.compression
    routes, unknown = _routes(settings, secrets)
    with database.read() as connection:
        session = find_session(connection, owner=owner, session_id=session_id)
        key = session.key
        fullness = Fullness.of(session, compression)
        held = guards.read_all(connection, database, key)
        known = {state.name: state for state in endpoints.states(connection, database)}
        models = tuple(Model(route, known.get(route or "")) for route in routes)
        shown = tuple(summaries.all_live(connection, key))
        load = _load(connection, session)
        micro = why_nothing_due(connection, read_state(connection, database, key), compression)
        return Explanation(
            session=session,
            fullness=fullness,
            calibration=load.calibration,
            prompt_tokens=load.prompt_tokens,
            parts=_parts(connection, session, fullness.threshold, compression),
            batch_idle=_batch_idle(connection, key, compression),
            micro_idle=micro.reason if micro is not None else None,
            shown=shown,
            open_jobs=tuple(job_records.open_jobs(connection, key)),
            held=held,
            statuses=trigger_statuses(
                load,
                Restraints(compression, held, chain_fingerprint(settings.auxiliary.compression)),
                micro_due=micro is None,
                placeholder=any(one.kind is SummaryKind.PLACEHOLDER for one in shown),
                down=nobody_answers([model.state for model in models]),
            ),
            models=models,
            unknown_models=unknown,
            short=pruned.count(connection, key),
            prune=plan_prune(
                connection,
                key,
                compression,
                PRUNE_RULES,
                least=compression.proactive_prune_min_reclaim_tokens,
            ),
            by=managed_by(session, compression),
            server_tokens=_server_tokens(session, fullness.threshold, compression),
            now=connection.execute(select(database.now())).scalar_one(),
        )


def _routes(
    settings: Settings, secrets: Mapping[str, str]
) -> tuple[tuple[str | None, ...], str | None]:
    try:
        chain = resolve_chain(settings.auxiliary.compression, secrets)
    except EndpointError as error:
        # The workers may have the key that this terminal lacks.
        return (), error.problems[0].message
    return tuple(
        None if one is None else route_name(one.model, one.base_url) for one in chain
    ), None


def _load(connection: Connection, session: SessionRecord) -> Load:
    report = events.newest_report(connection, session.key, after=0)
    prompt = current_prompt(report, session) if report is not None else None
    return Load(session, Calibration.of(session.calibration), prompt)


def _parts(
    connection: Connection,
    session: SessionRecord,
    threshold: Threshold | None,
    settings: CompressionSettings,
) -> Portions | None:
    if threshold is None:
        return None
    view = messages.read_outline(connection, session.key)
    rules = region_rules(threshold, settings)
    regions, span = divide(
        view, rules, _AUTOMATIC, CompactionOptions(), turn_open=session.turn_open
    )
    return Portions.of(view, regions, span)


def _batch_idle(connection: Connection, key: int, settings: CompressionSettings) -> str | None:
    plan = plan_batch(connection, key, Circumstances(settings, _AUTOMATIC, CompactionOptions()))
    return plan.reason if isinstance(plan, NothingToCompact) else None


def _server_tokens(
    session: SessionRecord, threshold: Threshold | None, settings: CompressionSettings
) -> int | None:
    return None if threshold is None else server_threshold(session, threshold, settings)
