"""The verdict on a chaos run: everything is counted anew, and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from storage.conversations.micro_reads import read_state
from storage.engine import Database
from tests.chaos import checks, claims
from tests.chaos.checks import Record
from tests.chaos.claims import Claim
from tests.chaos.diary import read_diary
from tests.chaos.form import Form
from tests.chaos.gateways import Note
from tests.chaos.ledger import End
from tests.chaos.programs import COMPRESSION
from tests.chaos.script import Saying
from tests.chaos.stage import Stage
from tests.chaos.tally import Tally
from tests.support.sessions.gateways import rows_of
from workers.micro.plan import why_nothing_due
from workers.settings import CompressionSettings
from workers.turn.due import micro_may_be_due


@dataclass(frozen=True, slots=True)
class Verdict:
    """Judges a run whose stage has come to rest. `said` is what was said in each session,
    `unfinished` are sentences about what did not come to an end in time."""

    form: Form
    stage: Stage
    said: Mapping[str, Sequence[Saying]]
    unfinished: Sequence[str]

    def tally(self, seconds: Mapping[str, float]) -> Tally:
        """Return what happened, what was done, and everything that is wrong."""
        records = checks.read_records(self.stage.database)
        held = claims.claims_of(read_diary(self.stage.database))
        happened = self.stage.happened
        return Tally(
            form=self.form,
            done_to_it={
                "kills of workers": self.stage.posts.kills,
                **{name: happened[name] for name in sorted(happened) if happened[name]},
            },
            it_did={**self._of_gateways(records), **self._of_claims(held), **self._of_the_model()},
            seconds=seconds,
            # What a process did wrong breaks a run off, and then nothing else is as it should be.
            faults=tuple(self.stage.posts.faults or self._wrong(records, held)),
        )

    def _wrong(self, records: Mapping[str, Record], held: Sequence[Claim]) -> Iterator[str]:
        database = self.stage.database
        diary = read_diary(database)
        keys = {name: record.key for name, record in records.items()}
        yield from self.unfinished
        for name, turns in self.said.items():
            yield from checks.check_session(name, records.get(name), turns)
        yield from checks.check_jobs(database)
        yield from claims.check_claims(diary)
        yield from claims.check_writers(diary, self._name_of)
        yield from claims.check_paid_once(
            self.stage.ledger.asked, diary, self._name_of, keys, self._may_have_lost_answer
        )
        yield from claims.check_dead(_dead(database), held, self._was_lost)
        yield from claims.check_paused(held, self.stage.paused)
        yield from _left_undone(database, keys)

    def _of_gateways(self, records: Mapping[str, Record]) -> dict[str, int]:
        outcomes = checks.count_outcomes(list(records.values()))
        return {
            "turns": self.stage.noted(Note.SAID),
            "messages": sum(len(record.messages) for record in records.values()),
            "calls repeated by gateways": self.stage.noted(Note.REPEATED),
            "calls that met a database that was away": self.stage.noted(Note.WAITED),
            "passes": sum(len(record.summaries) for record in records.values()),
            **{f"tries that ended as {name}": outcomes[name] for name in sorted(outcomes)},
        }

    def _of_claims(self, held: Sequence[Claim]) -> dict[str, int]:
        rescued = [claim for claim in held if claim.rescued]
        unstruck = [claim for claim in rescued if not self._was_struck(claim)]
        alive = [claim for claim in unstruck if not claim.overlaps(self.stage.outages)]
        return {
            "claims": len(held),
            "leases that ended and were rescued": len(rescued),
            "of them while the database was away": len(unstruck) - len(alive),
            "of them of workers that nothing had happened to": len(alive),
            "jobs dead after three lost claims in a row": len(_dead(self.stage.database)),
            "late writes refused": self.stage.posts.written().count("result discarded"),
        }

    def _of_the_model(self) -> dict[str, int]:
        ends = self.stage.ledger.counts()
        ((left,),) = rows_of(self.stage.database, "SELECT count(*) FROM answers")
        return {
            "answers paid for": ends[End.PAID],
            "answers that failed or were no summaries": ends[End.BAD],
            "answers given up": ends[End.GIVEN_UP],
            "answers paid for again after a kill or stop": claims.count_paid_again(
                self.stage.ledger.asked
            ),
            "answers left over": left,
        }

    def _name_of(self, lease_owner: str, at: int) -> str | None:
        """Return the process of a lease owner, whose name is `host:pid:random`."""
        return self.stage.posts.name_at(int(lease_owner.split(":")[1]), at / 1000)

    def _was_struck(self, claim: Claim) -> bool:
        """Return whether the owner of a claim died, or was stopped while its lease ran."""
        name = self._name_of(claim.lease_owner, claim.since)
        return claim.overlaps(span for span in self.stage.posts.struck if span.what == name)

    def _was_lost(self, claim: Claim) -> bool:
        return self._was_struck(claim) or claim.overlaps(self.stage.outages)

    def _may_have_lost_answer(self, claim: Claim) -> bool:
        """Return whether an answer that a lost claim was given may be lost too: only with its
        worker, or when a worker that is not heard for so long has given it up."""
        return self._was_struck(claim) or not claim.overlaps(self.stage.outages)


def _dead(database: Database) -> list[int]:
    return [number for (number,) in rows_of(database, "SELECT id FROM jobs WHERE state = 'dead'")]


def _left_undone(database: Database, keys: dict[str, int]) -> Iterator[str]:
    """Yield sessions that hold enough for a pass that no worker makes."""
    settings = CompressionSettings(**COMPRESSION)
    with database.read() as connection:
        for name, key in keys.items():
            state = read_state(connection, database, key)
            is_seen = micro_may_be_due(state.session, settings)
            if is_seen and why_nothing_due(connection, state, settings) is None:
                yield f"{name}: a micro pass is due and no job is open for it"
