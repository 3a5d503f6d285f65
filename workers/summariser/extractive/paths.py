"""The files and addresses that are named in a conversation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from workers.summariser.contract import Passage

_MOST_OF_ONE = 4
_MOST_CHARS = 160

_WORD = re.compile(r"[^\s\"'`<>()\[\]{}|,;*\\，。；、：（）「」《》“”‘’!！？]+")
_ADDRESS = re.compile(r"(?:https?|s3|gs|ssh|ftp)://[^\s/]+\S*", re.IGNORECASE)
_ENDING = (
    r"(?:py|pyi|ipynb|js|jsx|ts|tsx|java|kt|go|rs|rb|php|c|cc|cpp|h|hpp|cs|swift|sh|sql|html?|css"
    r"|json|jsonl|ya?ml|toml|ini|cfg|conf|xml|csv|tsv|md|rst|txt|log|lock|db|sqlite|pdf|docx?|xlsx?"
    r"|pptx?|png|jpe?g|gif|svg|webp|mp[34]|wav|zip|gz|tar|tgz|patch|diff|env|proto|ps1|bat)"
)
_FILE = re.compile(
    rf"(?:[\w.@+~-]{{0,80}}/)*+[\w.@+-]{{1,80}}\.{_ENDING}(?::\d+)?"  # src/app.py, notes.md:12
    r"|(?:~|\.{1,2})?/(?:[\w.@+-]{1,80}/)+[\w.@+-]{0,80}",  # /etc/hosts, ./build/out/
    re.IGNORECASE,
)


def places(passages: Iterable[Passage]) -> list[str]:
    """Name the files and addresses in what is said and called, in order of their last mention.

    What tools return is left out, since a listing names hundreds, and of one message no more than
    the first four are taken.
    """
    found: dict[str, None] = {}
    for one in passages:
        if one.label in ("user", "assistant"):
            for place in _first(_places(one)):
                found.pop(place, None)
                found[place] = None
    return list(found)


def _first(found: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(found))[:_MOST_OF_ONE]


def _places(one: Passage) -> Iterator[str]:
    for text in (*(arguments for _, arguments in one.calls), one.text):
        # Arguments are JSON text: a line break in them is two characters.
        for word in _WORD.findall(text.replace("\\n", " ").replace("\\t", " ")):
            place = word.rstrip(".:?")
            if len(place) <= _MOST_CHARS and (_ADDRESS.fullmatch(place) or _FILE.fullmatch(place)):
                yield place
