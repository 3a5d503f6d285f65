"""English words that are in nearly every text, as the index has them (stemmed).

They are indexed, so phrases with them are found; a question drops them where it has other words.
"""

from __future__ import annotations

from storage.search.words import words_of

STOP_WORDS = frozenset(
    word.term
    for word in words_of(
        "a about after again all also am an and any are as at be because been before being but by "
        "can could d did do does doing don down each few for from further had has have having he "
        "her here hers him his how i if in into is it its itself just ll m me more most my myself "
        "no nor not now of off on once only or other our ours out over own please re s same shall "
        "she should so some such t than that the their theirs them then there these they this "
        "those through to too under until up us ve very was we were what when where which while "
        "who whom why will with would you your yours yourself tell told say said"
    )
)
