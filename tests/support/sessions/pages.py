"""The project's pages as tests read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[3]
DOCS = PROJECT / "docs"

_FENCE = re.compile(r"^(`{3,})(\w*)[^\n]*\n(.*?)^\1\s*$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)
_DIRECTIVE = re.compile(r"^::: (\S+)", re.MULTILINE)
_CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of Markdown."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(PROJECT).as_posix()

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def prose(self) -> str:
        """The text without blocks of code."""
        return _FENCE.sub("", self.text)

    @property
    def links(self) -> list[str]:
        """The targets of links and pictures, in order."""
        return _LINK.findall(_CODE.sub("", self.prose))

    @property
    def anchors(self) -> set[str]:
        """What a link into the page may name."""
        found: dict[str, int] = {}
        names = set(_DIRECTIVE.findall(self.prose))
        for heading in _HEADING.findall(self.prose):
            slug = slug_of(heading)
            number = found.get(slug, 0)
            names.add(f"{slug}_{number}" if number else slug)
            found[slug] = number + 1
        return names

    def blocks(self, language: str) -> list[str]:
        """Return the blocks of code in a language, in order."""
        return [body for _, named, body in _FENCE.findall(self.text) if named == language]

    def codes(self) -> Iterator[str]:
        """Yield the pieces of code within the prose."""
        for _, code in _CODE.findall(self.prose):
            yield " ".join(code.split())

    def table(self, first: str) -> list[list[str]]:
        """Return the rows of the table whose first column is headed so, without its head."""
        lines = self.prose.splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first} |"))
        rows = []
        for line in lines[start + 2 :]:
            if not line.startswith("|"):
                break
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        return rows


def slug_of(heading: str) -> str:
    """Return the anchor of a heading, as the site makes it."""
    text = re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower()
    return re.sub(r"[-\s]+", "-", text)


def all_pages() -> list[Page]:
    """Return every page of the documentation and those beside the README."""
    beside = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
    paths = [*(PROJECT / name for name in beside), *sorted(DOCS.rglob("*.md"))]
    return [Page(path) for path in paths]


def page(name: str) -> Page:
    """Return the page at a path below the project's folder."""
    return Page(PROJECT / name)
