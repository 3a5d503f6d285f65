"""What the diary and the model's ledger say of claims: one at a time, and no answer paid twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tests.chaos.diary import Entry, What
from tests.chaos.ledger import Asked, End
from tests.chaos.posts import Span

MOST_ATTEMPTS = 3
"""Claims in a row that may be lost with their worker (docs/explanation/leases.md)."""

Names: TypeAlias = Callable[[str, int], str | None]
"""Returns the name of the process behind a lease owner, which it had at a time in
milliseconds since 1970."""

_SLACK_MS = 50
"""A request may arrive so much before its claim's time, for that is taken within a statement."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A job was held from `since` to `until` (milliseconds since 1970). `given_back` says that its
    lease owner stopped in good order before the job was done."""

    session_key: int
    job_id: int
    queue: str
    lease_owner: str
    since: int
    until: int
    rescued: bool
    given_back: bool

    def overlaps(self, spans: Iterable[Span]) -> bool:
        """Return whether the job was held in one of these."""
        return any(
            span.since * 1000 <= self.until and self.since <= span.until * 1000 for span in spans
        )


def claims_of(diary: Sequence[Entry]) -> list[Claim]:
    """Return every claim that has come to an end."""
    open_: dict[int, Entry] = {}
    claims = []
    for entry in diary:
        if entry.what is not What.JOB:
            continue
        if entry.claimed:
            open_[entry.id] = entry
        elif entry.left and (begun := open_.pop(entry.id, None)) is not None:
            claims.append(
                Claim(
                    session_key=entry.session_key,
                    job_id=entry.id,
                    queue=begun.queue or "",
                    lease_owner=begun.lease_owner or "",
                    since=begun.at,
                    until=entry.at,
                    rescued=entry.rescued,
                    given_back=entry.given_back,
                )
            )
    return claims


def check_claims(diary: Sequence[Entry]) -> Iterator[str]:
    """Yield one job of a session ran at a time, each claim with a new fence and bounded
    attempts."""
    running: dict[int, int] = {}
    fences: dict[int, int] = defaultdict(int)
    for entry in diary:
        if entry.what is not What.JOB:
            continue
        fence = entry.fence or 0
        if entry.claimed:
            if entry.session_key in running:
                yield f"jobs {running[entry.session_key]} and {entry.id} of a session ran at once"
            if fence <= fences[entry.id]:
                yield f"job {entry.id} was claimed without a new fence"
            if (entry.attempt or 0) > MOST_ATTEMPTS:
                yield f"job {entry.id} was claimed {entry.attempt} times in a row"
            running[entry.session_key] = entry.id
        elif entry.left:
            if running.pop(entry.session_key, None) != entry.id:
                yield f"job {entry.id} ended and was not running"
            if fence < fences[entry.id]:
                yield f"job {entry.id} was written with fence {fence}, {fences[entry.id]} is newer"
        fences[entry.id] = max(fence, fences[entry.id])


def check_writers(diary: Sequence[Entry], name_of: Names) -> Iterator[str]:
    """Yield each summary was stored by who held the session's running job then."""
    for entry in diary:
        if entry.what is not What.SUMMARY:
            continue
        if entry.lease_owner is None:
            yield f"summary {entry.id} was stored while no job of its session ran"
        elif entry.writer and name_of(entry.lease_owner, entry.at) != entry.writer:
            who = entry.lease_owner
            yield f"summary {entry.id} was stored by {entry.writer}, {who} had the job"


def check_dead(
    dead: Sequence[int], claims: Sequence[Claim], struck: Callable[[Claim], bool]
) -> Iterator[str]:
    """Yield jobs that are dead although not all of their last claims were lost with their worker.

    Claims that were given back do not count. A job whose workers all died cannot be distinguished
    from one that kills its process.
    """
    for job in dead:
        its = [claim for claim in claims if claim.job_id == job and not claim.given_back]
        last = its[-MOST_ATTEMPTS:]
        lost = [claim.rescued and struck(claim) for claim in last]
        if lost != [True] * MOST_ATTEMPTS:
            yield f"job {job} is dead without cause"


def check_paused(claims: Sequence[Claim], paused: Sequence[Span]) -> Iterator[str]:
    """Yield jobs that were claimed from a paused queue, but for claims that had begun."""
    for span in paused:
        for claim in claims:
            within = 1000 * (span.since + 1) < claim.since < 1000 * span.until
            if claim.queue == span.what and within:
                yield f"job {claim.job_id} was claimed from {span.what} while that was paused"


def check_paid_once(
    asked: Sequence[Asked],
    diary: Sequence[Entry],
    name_of: Names,
    keys: Mapping[str, int],
    excused: Callable[[Claim], bool],
) -> Iterator[str]:
    """Yield questions that were asked again after a good answer.

    That is right only if the claim that had asked was lost before it stored the answer.

    Then the answer was in flight when its worker died or was stopped, and it is
    lost. `excused` returns whether that can be so of a claim.
    """
    claims = claims_of(diary)
    stored = [entry for entry in diary if entry.what is What.ANSWER]
    paid: dict[str, list[Asked]] = defaultdict(list)
    for one in asked:
        if one.end is End.PAID:
            paid[one.question].append(one)
    for several in paid.values():
        for one in sorted(several, key=lambda one: one.arrived)[:-1]:
            claim = _claim_of(one, claims, name_of, keys)
            if claim is None:
                yield f"{one.asker} asked about {one.session} without a claim"
            elif not (claim.rescued and excused(claim)) or _was_stored(one, claim, asked, stored):
                yield (
                    f"{one.asker} was given an answer about {one.session} in job {claim.job_id} "
                    "and could keep it, and the same was paid for again"
                )


def count_paid_again(asked: Sequence[Asked]) -> int:
    """Return how many good answers were to questions that had one already."""
    paid = Counter(one.question for one in asked if one.end is End.PAID)
    return sum(paid.values()) - len(paid)


def _was_stored(one: Asked, claim: Claim, asked: Sequence[Asked], stored: Sequence[Entry]) -> bool:
    """Return whether an answer was stored between this request and the next one of the claim."""
    later = [
        other.arrived * 1000
        for other in asked
        if (other.asker, other.session) == (one.asker, one.session) and other.arrived > one.arrived
    ]
    until = min([claim.until, *later])
    return any(
        entry.session_key == claim.session_key and one.arrived * 1000 <= entry.at <= until
        for entry in stored
    )


def _claim_of(
    one: Asked, claims: Sequence[Claim], name_of: Names, keys: Mapping[str, int]
) -> Claim | None:
    at = one.arrived * 1000
    for claim in claims:
        if (
            claim.session_key == keys.get(one.session or "")
            and name_of(claim.lease_owner, claim.since) == one.asker
            and claim.since - _SLACK_MS <= at <= claim.until
        ):
            return claim
    return None
