"""What the documentation says is so."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.gen.__main__ import PAGES
from docs.gen.api import MEANINGS as SIGNAL_MEANINGS
from docs.gen.cli import paths
from docs.gen.outcomes import MEANINGS
from docs.gen.sources import SignalKind, describe_settings
from storage.outcomes import CHANGED_VIEW, Outcome
from tests.support.sessions.pages import DOCS, PROJECT, Page, all_pages, page
from workers.policy.threshold import _BUILT_IN, threshold_tokens
from workers.policy.triggers import RULES
from workers.settings.compression import CompressionSettings
from workers.summariser.breaker import Verdict, verdict_of
from workers.summariser.contract import ErrorClass

PAGE_LIST = all_pages()
OURS = ("afterturn", "producers", "schedules", "storage", "tasks", "workers")
each_page = pytest.mark.parametrize("one", PAGE_LIST, ids=lambda one: one.name)


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_that_of_the_code(name: str) -> None:
    written = (DOCS / "reference" / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), f"docs/reference/{name} is out of date: run `make reference`"


@each_page
def test_every_link_within_the_project_leads_somewhere(one: Page) -> None:
    for link in one.links:
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (one.path.parent / path).resolve() if path else one.path
        assert target.is_relative_to(PROJECT), f"{link} leads out of the project"
        assert target.exists(), f"{link} leads nowhere"
        if anchor:
            assert anchor in Page(target).anchors, f"{link} names no heading of that page"


def test_every_page_of_the_site_is_in_its_navigation() -> None:
    site = yaml.safe_load((PROJECT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = list(_leaves(site["nav"]))
    assert len(listed) == len(set(listed))
    assert set(listed) == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


def _leaves(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    inner = nav.values() if isinstance(nav, dict) else nav
    return [leaf for part in inner for leaf in _leaves(part)]


@each_page
def test_every_page_that_the_site_shows_stays_within_it(one: Page) -> None:
    if not one.path.is_relative_to(DOCS):
        return
    for link in one.links:
        if not re.match(r"[a-z]+:", link):
            target = (one.path.parent / (link.partition("#")[0] or one.path.name)).resolve()
            assert target.is_relative_to(DOCS), f"{link} is no page of the site"


@each_page
def test_blocks_of_code_can_be_read(one: Page) -> None:
    for block in one.blocks("python"):
        ast.parse(block)
    for block in one.blocks("yaml"):
        list(yaml.safe_load_all(block))


_commands = cache(paths)


@each_page
def test_every_command_is_one_of_the_program(one: Page) -> None:
    known = _commands()
    groups = {path.rpartition(" ")[0] for path in known} - {"", "afterturn"}
    lines = [line for block in one.blocks("sh") for line in block.splitlines()]
    lines += [line[2:] for block in one.blocks("text") for line in block.splitlines()
              if line.startswith("$ ")]  # fmt: skip
    for text in [*lines, *one.codes()]:
        found = re.match(r"afterturn((?: [a-z][a-z-]*)+)", text.strip())
        if found is None:
            continue
        words = found[1].split()
        first = f"afterturn {words[0]}"
        assert first in known, f"{text!r} is no command"
        if first in groups and len(words) > 1:
            assert f"{first} {words[1]}" in known, f"{text!r} is no command"


@each_page
def test_every_option_of_a_command_is_known(one: Page) -> None:
    reference = page("docs/reference/cli.md").text
    options = set(re.findall(r"--[a-z][a-z-]+", reference)) | {"--help"}
    for block in [*one.blocks("sh"), *one.blocks("text")]:
        for line in block.splitlines():
            if re.match(r"(\$ )?afterturn ", line):
                used = set(re.findall(r"(?<=\s)--[a-z][a-z-]+", line.partition("#")[0]))
                assert used <= options, line


_settings = cache(describe_settings)


@each_page
def test_every_setting_that_is_named_exists(one: Page) -> None:
    keys = {row.key for row in _settings()}
    blocks = {key.rpartition(".")[0] for key in keys} | {"auxiliary"}
    for code in one.codes():
        found = re.fullmatch(
            r"((?:compression|auxiliary|worker|schedule|retention|prices)\.[a-z_.]+)(?::.*)?", code
        )
        if found and one.name != "CHANGELOG.md":
            assert found[1] in keys | blocks, f"{code} is no setting"


@each_page
def test_every_make_target_exists(one: Page) -> None:
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    known = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for code in [*one.codes(), *"\n".join(one.blocks("sh")).splitlines()]:
        if found := re.match(r"make ([a-z-]+)", code):
            assert found[1] in known, f"{code!r} is no target"


DOCUMENTS = {
    path.name
    for folder in ("docs", *OURS)
    for path in [*PROJECT.glob("*.md"), *(PROJECT / folder).rglob("*.md")]
}


@each_page
def test_pages_speak_of_nothing_outside_the_project(one: Page) -> None:
    if one.path.parent.name == "reference" or one.name == "CHANGELOG.md":
        return
    for name in re.findall(r"\b[A-Z]{3,}\.md\b", one.text):
        assert name in DOCUMENTS, f"no reader has {name}"
    for root in re.findall(r"(?:^|[\s`\"'=(])/([a-z]+)/\w", one.text, re.MULTILINE):
        assert root in {"etc", "opt", "srv", "tmp", "var"}, f"/{root} is of a developer's machine"
    for word in ("doorbell", "held_back", "nothing_left", "upkeep"):
        assert word not in one.text, f"{word} means nothing to a reader"


def test_pointers_in_the_code_lead_to_pages() -> None:
    for folder in OURS:
        for path in (PROJECT / folder).rglob("*.py"):
            for name, anchor in _pointers(path):
                target = Page(PROJECT / name)
                assert target.path.exists(), f"{path} points at {name}"
                assert not anchor or anchor in target.anchors, f"{path} points at {name}#{anchor}"


def _pointers(path: Path) -> list[tuple[str, str]]:
    text = path.read_text(encoding="utf-8")
    return re.findall(r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?", text)


def test_the_glossary_defines_each_word_once_and_in_order() -> None:
    words = [word.lower() for word, meaning in page("docs/explanation/glossary.md").table("word")]
    assert words == sorted(set(words))
    assert len(words) > 80


# What the pages say in numbers.


def test_the_table_of_thresholds_is_computed() -> None:
    rows = page("docs/explanation/regions.md").table("context window")
    assert len(rows) == 8
    for window, reserve, model, setting, expected in rows:
        options = yaml.safe_load(setting.strip("`")) if setting else {}
        found = threshold_tokens(
            context_window=_number(window),
            reserved_output=_number(reserve),
            model="" if model == "any" else model,
            settings=CompressionSettings(**options),
        )
        assert found.tokens == _number(expected), (window, model, setting)


def test_the_table_of_built_in_model_keys_is_that_of_the_code() -> None:
    rows = page("docs/explanation/regions.md").table("key")
    documented = {key.strip("` "): float(ratio) for keys, ratio in rows for key in keys.split(",")}
    assert documented == dict(_BUILT_IN)


def test_the_table_of_triggers_is_that_of_the_rules() -> None:
    rows = page("docs/explanation/triggers.md").table("trigger | priority")
    documented = {
        row[0].strip("`"): (int(row[1]), *(cell == "yes" for cell in row[2:])) for row in rows
    }
    known = {
        trigger.value: (
            rules.priority,
            rules.honours_switch,
            rules.honours_cooldown,
            rules.honours_thrash,
            rules.honours_no_op,
            rules.prunes_first,
            rules.enters_open_turn,
        )
        for trigger, rules in RULES.items()
    }
    assert documented == known
    conditions = page("docs/explanation/triggers.md").table("trigger")
    assert {row[0].strip("`") for row in conditions} == set(known)


def test_every_outcome_and_every_signal_has_a_meaning() -> None:
    assert set(SIGNAL_MEANINGS) == set(SignalKind)
    assert set(MEANINGS) == set(Outcome)
    changing = {name for name, (_, changes, _) in MEANINGS.items() if changes == "yes"}
    assert changing == CHANGED_VIEW


def test_the_table_of_error_classes_is_that_of_the_code() -> None:
    rows = page("docs/explanation/failures.md").table("class")
    documented = {row[0].strip("`"): tuple(row[2:]) for row in rows}
    assert set(documented) == {one.value for one in ErrorClass}
    for one in ErrorClass:
        again, exchange, breaker = documented[one.value]
        assert again.startswith("waits") == one.not_asked
        assert (again == "no") == one.permanent
        assert (exchange == "yes") == (not one.blames_endpoint)
        assert (breaker == "yes") == (verdict_of(one) is Verdict.DOWN)


def test_defaults_in_the_explanations_are_those_of_the_settings() -> None:
    defaults = {row.key.rpartition(".")[2]: row.default for row in describe_settings()}
    seen = 0
    for path in [*(DOCS / "explanation").glob("*.md"), DOCS / "faq.md"]:
        text = " ".join(Page(path).prose.split())
        for name, value in re.findall(r"`(?:[a-z]+\.)*([a-z_]+)` \(([\d,.]+)(?:[ :)])", text):
            if name in defaults:
                seen += 1
                assert float(value.replace(",", "")) == float(defaults[name]), (path.name, name)
    assert seen >= 20


def _number(text: str) -> int:
    return int(text.replace(",", ""))
