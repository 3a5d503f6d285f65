"""What is asked of the index for a query: lists of documents, from which the answer is ranked.

Ranking every document that has one of some common words would take the longer the more was ever
said. So each list is short and newest first: of the messages that have everything, and of those
that have one word. A rare word's list is all there is of it; only of a common one, which tells
little, the oldest are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from storage.search.query import Alternative, Operand, Query


@dataclass(frozen=True, slots=True)
class Clause:
    """One of each of `required`, and none of `excluded`. A document in the list has `known` for
    certain; `weighs` is the operand whose worth the length of the list tells."""

    required: tuple[tuple[Operand, ...], ...]
    excluded: tuple[Operand, ...]
    known: tuple[Operand, ...]
    whole: bool = False
    weighs: Operand | None = None


def clauses_of(query: Query) -> list[Clause]:
    """The lists to ask for, each once."""
    found: dict[Clause, None] = {}
    for alternative in query.alternatives:
        for clause in _of(alternative):
            found.setdefault(clause)
    return list(found)


def _of(alternative: Alternative) -> list[Clause]:
    groups = tuple(group.operands for group in alternative.required)
    excluded = tuple(operand for group in alternative.excluded for operand in group.operands)
    operands = tuple(dict.fromkeys(operand for group in groups for operand in group))
    every = Clause(
        tuple((operand,) for operand in operands),
        excluded,
        operands,
        whole=True,
        weighs=operands[0] if len(operands) == 1 else None,
    )
    if len(operands) == 1:
        return [every]
    clauses = [every]
    for at, group in enumerate(alternative.required):
        others = groups[:at] + groups[at + 1 :]
        clauses += [
            Clause((*others, (operand,)), excluded, (operand,), weighs=operand)
            for operand in group.operands
        ]
        clauses += [
            Clause((*others, (operand,)), excluded, tuple(Operand((t,)) for t in operand.terms))
            for operand in group.together
        ]
    return clauses
