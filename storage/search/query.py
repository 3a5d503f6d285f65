"""Queries of a person or a model, parsed into a value. Every string is a query; none raises.

Words: any of them, messages with all of them first. "Phrases" are found word after word. `AND`,
`OR`, `NOT` in capitals, `NOT` before `AND` before `OR`; words side by side are one operand of them.
`word*` is any word that begins so. Everything else is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from storage.search.words import STOP_WORDS, is_cjk, words_of

MOST_CHARACTERS = 2_048
"""Only so many characters at the beginning of a query count."""

MOST_OPERANDS = 24
"""Words and phrases of one group that count: a pasted page is no better a question than its
beginning."""

_PIECE = re.compile(r'"([^"]*)"(\*?)|[^\s"]+|"')
_OPERATORS = frozenset({"AND", "OR", "NOT"})


@dataclass(frozen=True, slots=True)
class Operand:
    """One word, or several next to each other; with `prefix` the beginning of the last one is
    enough. `typed` is what was written."""

    terms: tuple[str, ...]
    prefix: bool = False
    typed: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Operands of which any is enough. `together` are those that were written without a space
    between (`a-b`, a run of CJK): a text with them next to each other answers better."""

    operands: tuple[Operand, ...]
    together: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Alternative:
    """A condition: all `required` groups and none of `excluded`."""

    required: tuple[Group, ...]
    excluded: tuple[Group, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """Alternatives of which any is enough; empty where the text has nothing that could be found.
    `fragments` are pieces of text to search inside of words, where words find too little: none for
    a query with operators."""

    alternatives: tuple[Alternative, ...]
    fragments: tuple[str, ...] = ()

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The operands to search for, each once, in order."""
        found = (
            operand
            for alternative in self.alternatives
            for group in alternative.required
            for operand in group.operands
        )
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    quoted: bool
    prefix: bool


def parse(text: str) -> Query:
    """Parse any string."""
    pieces = _without_loose_ends(list(_pieces(text[:MOST_CHARACTERS])))
    parts = _split(pieces, "OR")
    alternatives = tuple(
        found for part in parts if (found := _alternative(part, plain=len(parts) == 1)) is not None
    )
    plain = not any(_is_operator(piece) for piece in pieces)
    fragments = dict.fromkeys(_fragments(pieces)) if plain else ()
    return Query(alternatives, tuple(fragments)[:MOST_OPERANDS])


def _pieces(text: str) -> Iterator[_Piece]:
    for found in _PIECE.finditer(text):
        if found[1] is not None:
            yield _Piece(found[1], quoted=True, prefix=bool(found[2]))
        elif found[0] != '"':
            yield _Piece(found[0], quoted=False, prefix=found[0].endswith("*"))


def _is_operator(piece: _Piece) -> bool:
    return not piece.quoted and piece.text in _OPERATORS


def _without_loose_ends(pieces: list[_Piece]) -> list[_Piece]:
    """Drop operators without an operand at either end: they were left over or not meant."""
    while pieces and _is_operator(pieces[-1]):
        pieces = pieces[:-1]
    while pieces and _is_operator(pieces[0]) and pieces[0].text != "NOT":
        pieces = pieces[1:]
    return pieces


def _split(pieces: list[_Piece], operator: str) -> list[list[_Piece]]:
    parts: list[list[_Piece]] = [[]]
    for piece in pieces:
        if not piece.quoted and piece.text == operator:
            parts.append([])
        else:
            parts[-1].append(piece)
    return parts


def _alternative(pieces: list[_Piece], *, plain: bool) -> Alternative | None:
    required: list[Group] = []
    excluded: list[Group] = []
    has_operators = any(_is_operator(piece) for piece in pieces)
    for part in _split(pieces, "AND"):
        wanted, *unwanted = _split(part, "NOT")
        required += _group(wanted, whole=has_operators or not plain)
        for each in unwanted:
            # `a NOT b c` leaves out what has `b`; `c` is wanted, as if it came first.
            excluded += _group(each[:1], whole=True)
            required += _group(each[1:], whole=True)
    return Alternative(tuple(required), tuple(excluded)) if required else None


def _group(pieces: list[_Piece], *, whole: bool) -> list[Group]:
    """Return the pieces as a group; an empty list where they have no word. Where `whole` is set, a
    piece of several words is searched as it was written."""
    operands: list[Operand] = []
    together: list[Operand] = []
    for piece in pieces:
        operand = _operand(piece)
        if operand is None:
            continue
        if piece.quoted or whole or len(operand.terms) == 1:
            operands.append(operand)
            continue
        together.append(operand)
        operands += _apart(operand)
    kept = tuple(dict.fromkeys(_without_stop_words(operands)))[:MOST_OPERANDS]
    return [Group(kept, tuple(together)[:MOST_OPERANDS])] if kept else []


def _operand(piece: _Piece) -> Operand | None:
    words = words_of(piece.text)
    if not words:
        return None
    terms = [word.term for word in words]
    last = words[-1]
    if is_cjk(last.term):
        # The last character of a run is a word of its own only where the run ends in the text.
        if len(words) > 1 and is_cjk(words[-2].term) and words[-2].end == last.end:
            terms.pop()
            return Operand(tuple(terms), piece.prefix)
        return Operand(tuple(terms), prefix=True)
    if piece.prefix:
        terms[-1] = last.form
    return Operand(tuple(terms), piece.prefix)


def _apart(operand: Operand) -> list[Operand]:
    last = len(operand.terms) - 1
    return [
        Operand((term,), operand.prefix and at == last) for at, term in enumerate(operand.terms)
    ]


def _without_stop_words(operands: list[Operand]) -> Iterable[Operand]:
    """Drop words that are in every text, unless there are no others."""
    kept = [operand for operand in operands if not set(operand.terms) <= STOP_WORDS]
    return kept or operands


def _fragments(pieces: list[_Piece]) -> Iterator[str]:
    """Yield pieces of three characters or more that are not CJK alone, which pairs find by
    themselves."""
    for piece in pieces:
        text = piece.text.rstrip("*").strip().lower()
        words = words_of(text)
        has_content = not {word.term for word in words} <= STOP_WORDS
        if len(text) >= 3 and has_content and not all(is_cjk(word.term) for word in words):
            yield text


@dataclass(frozen=True, slots=True)
class Clause:
    """One of each of `required`, and none of `excluded`. Documents in the list certainly have
    `known`; `weighs` is the operand whose weight follows from the length of the list."""

    required: tuple[tuple[Operand, ...], ...]
    excluded: tuple[Operand, ...]
    known: tuple[Operand, ...]
    whole: bool = False
    weighs: Operand | None = None


def clauses_of(query: Query) -> list[Clause]:
    """Return the lists to request from the index, each once."""
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
