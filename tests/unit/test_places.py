"""Which files and addresses are found in a conversation."""

from __future__ import annotations

import pytest

from workers.summariser.contract import Passage
from workers.summariser.extractive.steps import paths


def found_in(text: str) -> list[str]:
    return paths([Passage("assistant", text)])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("I changed src/app/main.py.", "src/app/main.py"),
        ("See `notes.md:12`, please.", "notes.md:12"),
        ("It is in /etc/nginx/nginx.conf now", "/etc/nginx/nginx.conf"),
        ("Built to ./build/out/", "./build/out/"),
        ("(~/notes/plan.txt)", "~/notes/plan.txt"),
        ("已修改 src/解析器.py，测试通过。", "src/解析器.py"),
        ("Read https://example.org/a/b?c=1.", "https://example.org/a/b?c=1"),
    ],
)
def test_files_and_addresses_are_found(text: str, place: str) -> None:
    assert found_in(text) == [place]


@pytest.mark.parametrize(
    "text",
    [
        "Either and/or both, 24/7, on 05/20/2024 at 60 km/h.",
        "E.g. the U.S. fare of 12.50, i.e. v1.2.3.",
        "He said so...and left.",
        "mail@example.org",
        "//",
    ],
)
def test_other_words_with_dots_and_slashes_are_none(text: str) -> None:
    assert found_in(text) == []


def test_they_come_in_the_order_of_their_last_mention() -> None:
    given = [
        Passage("user", "Look at a.py and b.py"),
        Passage("assistant", "", (("edit", '{"path":"c.py","text":"import\\nb.py"}'),)),
        Passage("assistant", "Now a.py is done."),
    ]
    assert paths(given) == ["c.py", "b.py", "a.py"]


def test_listings_of_tools_are_left_out_and_one_message_gives_four() -> None:
    assert paths([Passage("tool ls", "a.py b.py"), Passage("runtime", "c.py")]) == []
    assert found_in(" ".join(f"f{n}.py" for n in range(9))) == ["f0.py", "f1.py", "f2.py", "f3.py"]
