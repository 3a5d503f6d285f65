"""Who may look at web pages of ours."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from afterturn.credentials import Credentials, Place, check_access, is_loopback
from afterturn.exits import CommandError

SECRET = "a:b long enough ü"


def header(pair: str, scheme: str = "Basic") -> str:
    return f"{scheme} {b64encode(pair.encode()).decode()}"


def test_a_pair_admits_and_nothing_else_does() -> None:
    known = Credentials((SECRET, "second:password"))
    assert known.admit(header(SECRET))
    assert known.admit(header("second:password", "basic"))
    for wrong in (
        None, "", "Basic", "Basic !!", header(SECRET + " "), header("a:"), header(SECRET, "Bearer"),
        header("second"), "Basic " + "=" * 40, "Basic ÿ",
    ):  # fmt: skip
        assert not known.admit(wrong), wrong


def test_a_file_holds_pairs_and_remarks(tmp_path: Path) -> None:
    file = tmp_path / "people"
    file.write_text(f"# people\n\n{SECRET}\n second:password \n")
    assert Credentials.read(file) == Credentials((SECRET, "second:password"))


@pytest.mark.parametrize("text", ["", "# none\n", "xyzzy\n", ":xyzzy-nameless\n", "a:xyzzy\n"])
def test_a_file_that_admits_nobody_or_anybody_is_refused_without_a_word_of_it(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "people"
    file.write_text(text)
    with pytest.raises(CommandError) as caught:
        Credentials.read(file)
    assert "xyzzy" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="none-such cannot be read: No such file"):
        Credentials.read(tmp_path / "none-such")


def test_nothing_shows_a_password() -> None:
    assert "long" not in repr(Credentials((SECRET,)))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:9464", Place("127.0.0.1", 9464)),
        ("[::1]:1", Place("::1", 1)),
        ("0.0.0.0:0", Place("0.0.0.0", 0)),
    ],
)
def test_a_place_is_read(text: str, place: Place) -> None:
    assert Place.read(text, "--listen") == place


@pytest.mark.parametrize("text", ["", "9464", ":9464", "host:", "host:x", "host:65536", "host:-1"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="--listen"):
        Place.read(text, "--listen")


def test_only_this_host_may_look_without_a_password() -> None:
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        assert is_loopback(host)
        check_access(Place(host, 1), None, "--credentials")
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.org", "127.0.0.1.example.org"):
        assert not is_loopback(host)
        with pytest.raises(CommandError, match="--credentials"):
            check_access(Place(host, 1), None, "--credentials")
        check_access(Place(host, 1), Credentials((SECRET,)), "--credentials")
