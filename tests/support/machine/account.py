"""What a session must hold by all that was said and done, kept beside the database.

Every change is judged when it happens: a turn, a pass, an undo, a rewind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from storage.conversations.messages import Amount
from storage.conversations.payload import split
from storage.conversations.summaries import SummaryKind
from storage.conversations.undo import Rewound, Undone
from storage.guards import GuardName
from storage.jobs import JobKind
from storage.types import escape
from tests.support.machine.state import Shown, State, StoredJob, StoredRow, StoredSummary
from workers.conversation.markers import frame_tokens
from workers.conversation.tokens import estimate_text
from workers.policy.triggers import TriggerRules, rules_of
from workers.rendering import Dialect, render
from workers.settings import CompressionSettings

MICRO_KINDS = frozenset({SummaryKind.MICRO, SummaryKind.DEFRAG})
IN_PLACE = frozenset({SummaryKind.DEFRAG, SummaryKind.PLACEHOLDER_REPLACED})
LOCAL_KINDS = frozenset({SummaryKind.PLACEHOLDER, SummaryKind.RESET})


@dataclass(slots=True)
class Said:
    """A message that was appended; `gone` once it was rewound."""

    content: str | None
    fields: str | None
    role: str
    tokens: int = 0
    created_at: int = 0
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass that changed the view, and what was there before it."""

    summary_id: int
    kind: SummaryKind
    before: list[Shown]
    cursor: int
    next_position: int


@dataclass(slots=True)
class Account:
    """The account of one session. `state` is the last one that was judged."""

    state: State
    said: list[Said] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)

    # What gateways do.

    def appended(self, messages: Sequence[dict[str, Any]], now: State, *, closes: bool) -> None:
        """Messages were stored behind all others."""
        before = self.state
        first = len(self.said)
        rows = {row.position: row for row in now.messages}
        for position, message in enumerate(messages, start=first):
            content, fields = (one and escape(one) for one in split(message))
            row = rows[position]
            assert (row.content, row.fields, row.role) == (content, fields, message["role"])
            assert (row.active, row.compacted, row.absorbed_by) == (1, 0, None)
            self.said.append(Said(content, fields, row.role or "", row.tokens, row.created_at))
        assert len(rows) == len(self.said)
        assert [row for row in now.rows if row.position < first] == list(before.rows)
        assert (now.summaries, now.cursor) == (before.summaries, before.cursor)
        assert now.session.turns == before.session.turns + closes
        assert now.session.turn_open == (not closes)
        assert now.session.revision == before.session.revision
        self.state = now

    def undone(self, undone: Undone | None, now: State) -> None:
        """Check that the last pass was undone: the view before it is back, with all later rows."""
        if undone is None:
            assert self.passes == []
            assert now.unchanged == self.state.unchanged
        else:
            taken = self.passes.pop()
            assert (undone.summary_id, undone.kind) == (taken.summary_id, taken.kind)
            self._is_view_before(taken, now)
            cursor = self.state.cursor if taken.kind in IN_PLACE else taken.cursor
            assert now.cursor == cursor
            assert now.session.revision > self.state.session.revision
            assert now.summaries[taken.summary_id].status == "undone"
        self.state = now

    def unpruned(self, back: Amount, now: State) -> None:
        """Check that every row is shown in full again; what is live and where has not changed."""
        before = self.state
        short = [row for row in before.live if row.pruned is not None]
        assert back.messages == len(short)
        assert back.tokens == sum(row.spared_tokens or 0 for row in short)
        assert not any(row.pruned for row in now.rows)
        assert now.shown == before.shown
        assert (now.summaries, now.cursor) == (before.summaries, before.cursor)
        assert now.session.live_tokens == before.session.live_tokens + back.tokens
        assert now.session.revision == before.session.revision + bool(short)
        self.state = now

    def rewound(self, rewound: Rewound, cut: int, now: State) -> None:
        """Everything from `cut` on is gone for good, whatever passes had made of it."""
        expected = self.state.shown
        for _ in range(rewound.summaries_undone):
            expected = self._view_before(self.passes.pop())
        gone = [one for one in self.said[cut:] if not one.gone]
        for one in gone:
            one.gone = True
        assert rewound.cut == cut
        assert rewound.rows == len(gone)
        assert now.shown == [row for row in expected if row[0] < cut]
        assert all(one.last_position < cut for one in now.live_summaries)
        assert now.cursor <= cut
        assert not now.session.turn_open
        self.state = now

    def _is_view_before(self, taken: Pass, now: State) -> None:
        assert now.shown == self._view_before(taken)

    def _view_before(self, taken: Pass) -> list[Shown]:
        """Return the view that was there before a pass, and the messages that came after it."""
        kept = [row for row in taken.before if row[1] or not self.said[row[0]].gone]
        later = [
            (position, False, "message", one.tokens, one.content, one.fields)
            for position, one in enumerate(self.said)
            if position >= taken.next_position and not one.gone
        ]
        return kept + later

    # What workers do.

    def nothing_happened(self, now: State) -> None:
        """Check that rows, summaries, cursor and counters are as they were."""
        assert now.unchanged == self.state.unchanged
        self.state = now

    def committed(self, before: State, now: State, settings: CompressionSettings) -> None:
        """Check a worker's committed transaction: a pass, or the records of none."""
        assert before.unchanged == self.state.unchanged
        job = before.running
        assert job is not None, "a write without a job"
        new = [now.summaries[i] for i in now.summaries if i not in before.summaries]
        if not new and now.rows != before.rows:
            _judge_pruning(before, now, job)
        elif not new:
            self._only_skipped(before, now, job)
        else:
            (summary,) = new
            self._judge(before, now, job, summary, settings)
            self.passes.append(
                Pass(
                    summary.id,
                    SummaryKind(summary.kind),
                    before.shown,
                    before.cursor,
                    before.session.next_position,
                )
            )
        self.state = now

    def _only_skipped(self, before: State, now: State, job: StoredJob) -> None:
        assert (now.rows, now.summaries) == (before.rows, before.summaries)
        assert now.session.revision == before.session.revision
        moved = now.cursor != before.cursor
        assert not moved or (job.kind == JobKind.MICRO and now.cursor > before.cursor)

    def _judge(
        self,
        before: State,
        now: State,
        job: StoredJob,
        summary: StoredSummary,
        settings: CompressionSettings,
    ) -> None:
        kind = SummaryKind(summary.kind)
        assert (kind in MICRO_KINDS) == (job.kind == JobKind.MICRO)
        absorbed = _absorbed(before, now, summary)
        if kind in IN_PLACE:
            assert absorbed == []
            former = before.summaries[summary.replaces or 0]
            assert now.cursor == before.cursor
        else:
            former = None
            assert [row for row in absorbed if not row.is_marker] != []
            assert now.cursor > summary.last_position
        _judge_rows(before, absorbed, kind, settings)
        _judge_size(before, now, absorbed, summary, former)
        _judge_view(before, now)
        if job.kind == JobKind.BATCH:
            _judge_trigger(before, absorbed, kind, rules_of(job.trigger), settings)
        if kind in (SummaryKind.BATCH, SummaryKind.PLACEHOLDER_REPLACED):
            assert GuardName.COOLDOWN not in now.guards, "a success has not ended the cooldown"
        record = now.session
        assert record.revision == before.session.revision + 1
        assert record.passes == before.session.passes + 1


def _judge_pruning(before: State, now: State, job: StoredJob) -> None:
    """Old output of tools is shown short, and nothing else has changed."""
    assert job.kind in (JobKind.BATCH, JobKind.PRUNE)
    assert (now.summaries, now.cursor) == (before.summaries, before.cursor)
    spared = 0
    for was, row in zip(before.rows, now.rows, strict=True):
        assert row.said == was.said
        if row == was:
            continue
        assert was.active
        assert was.pruned is None
        assert row.pruned is not None
        assert row.answer_ids or row.call_ids
        assert not row.opens_turn
        assert row.tokens < was.tokens
        spared += was.tokens - row.tokens
    assert spared > 0
    record, former = now.session, before.session
    assert record.revision == former.revision + 1
    assert record.live_tokens == former.live_tokens - spared
    assert record.tokens_saved == former.tokens_saved + spared
    _judge_view(before, now)


def _absorbed(before: State, now: State, summary: StoredSummary) -> list[StoredRow]:
    """Return what a pass archived; all else must be as it was, but for one new or changed
    marker."""
    former = {row.id: row for row in before.rows}
    absorbed: list[StoredRow] = []
    shows: list[StoredRow] = []
    for row in now.rows:
        was = former.pop(row.id, None)
        if was == row:
            continue
        if row.summary_id == summary.id:
            assert (row.active, row.tokens, row.position) == (
                1,
                summary.tokens,
                summary.last_position,
            )
            shows.append(row)
            continue
        assert was is not None
        assert row.said == was.said
        assert (was.active, row.active, row.compacted) == (1, 0, 1)
        assert row.absorbed_by == summary.id
        absorbed.append(row)
    assert former == {}
    assert len(shows) == 1
    return absorbed


def _judge_rows(
    before: State, absorbed: Sequence[StoredRow], kind: SummaryKind, settings: CompressionSettings
) -> None:
    gone = {row.position for row in absorbed if not row.is_marker}
    assert all(row.role not in ("system", "developer") for row in absorbed)
    requests = [row.position for row in before.live if row.opens_turn]
    newest = 1 if kind is SummaryKind.RESET else settings.min_tail_user_messages
    assert gone.isdisjoint(requests[:1]), "the first request is gone"
    assert gone.isdisjoint(requests[-newest:]), "the newest request is gone"
    if kind in MICRO_KINDS:
        assert not any(row.by_person for row in absorbed), "micro absorbed what a person wrote"
        assert all(row.kind == "micro" for row in absorbed if row.is_marker)
    # What has been taken out of the view in one pass never comes partly.
    assert all(row.is_marker or row.active == 0 for row in absorbed)


def _judge_size(
    before: State,
    now: State,
    absorbed: Sequence[StoredRow],
    summary: StoredSummary,
    former: StoredSummary | None,
) -> None:
    kind = SummaryKind(summary.kind)
    grown = now.session.live_tokens - before.session.live_tokens
    replaced = sum(row.tokens for row in absorbed)
    if kind is SummaryKind.MICRO:
        assert grown <= frame_tokens()
    elif kind is SummaryKind.PLACEHOLDER_REPLACED:
        assert former is not None
        originals = _opened(before, former.id)
        assert estimate_text(summary.text) < max(1, originals), "the real summary is longer"
    else:
        assert grown < 0, f"the view has grown by a {kind} pass"
    if kind in (SummaryKind.BATCH, SummaryKind.PLACEHOLDER):
        assert summary.tokens < replaced
    if kind is SummaryKind.MICRO:
        assert estimate_text(summary.text) < replaced


def _opened(state: State, summary_id: int) -> int:
    """Return tokens of what a summary absorbed, placeholders opened down to their originals."""
    tokens = 0
    for row in state.rows:
        if row.absorbed_by != summary_id:
            continue
        shown = state.summaries.get(row.summary_id or 0)
        opens = shown is not None and shown.kind == SummaryKind.PLACEHOLDER
        tokens += _opened(state, shown.id) if shown and opens else row.tokens
    return tokens


def _judge_view(before: State, now: State) -> None:
    """Check that no result has lost its call and no call its result."""
    for dialect in Dialect:
        former, view = render(before.view, dialect), render(now.view, dialect)
        assert set(view.stubbed) <= set(former.stubbed), "a call has lost its result"
        assert set(view.omitted) <= set(former.omitted), "a result has lost its call"


def _judge_trigger(
    before: State,
    absorbed: Sequence[StoredRow],
    kind: SummaryKind,
    rules: TriggerRules,
    settings: CompressionSettings,
) -> None:
    if rules.honours_switch:
        assert settings.enabled
    if rules.honours_switch and not rules.bypasses:
        held = before.guards.get(GuardName.UNDONE)
        assert held is None or held.subject != before.session.turns, "undone, and done again"
    if kind is SummaryKind.PLACEHOLDER and settings.abort_on_summary_failure:
        assert rules.placeholder_at_once
    if before.session.turn_open and not rules.enters_open_turn and kind is not SummaryKind.RESET:
        opened = [row.position for row in before.live if row.opens_turn]
        assert not opened or all(row.position <= opened[-1] for row in absorbed)
