"""English stems by the Snowball stemmer, so that `compacted` finds `compaction`.

Stemmed here and not by the databases, because both must have the very same words in their indexes.
"""

from __future__ import annotations

from functools import lru_cache

from snowballstemmer.english_stemmer import EnglishStemmer


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return the stem of a lower-case English word; a word of one or two letters is its own."""
    # A stemmer keeps its place in the word, so threads must not share one.
    return str(EnglishStemmer().stemWord(word)) if len(word) > 2 else word
