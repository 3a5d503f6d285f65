"""How large the product is, and how it is cut: `python -m tests.benchmarks.size`."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median

from tests.benchmarks.figure import Figure
from tests.benchmarks.scale import Scale
from tests.benchmarks.stage import Stage
from tests.support.programs.processes import PROJECT

FOLDERS = ("afterturn", "producers", "schedules", "storage", "tasks", "workers")
_NOUNS = re.compile(r"(What|How|Whether|The|A|An)\b")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Size:
    """Sizes of a code base, by lines as they stand."""

    files: int
    lines: int
    median_file: float
    files_below_40_lines: int
    functions_a_file: float
    mean_function: float
    public_docstrings: float
    noun_docstrings: float
    imported_once: int


def measure(folders: list[Path]) -> Size:
    """Measure all Python files below `folders`. Shares are from 0 to 1."""
    texts = {path: path.read_text("utf-8") for folder in folders for path in folder.rglob("*.py")}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    lines = [text.count("\n") for text in texts.values()]
    functions = [one for tree in trees.values() for one in _functions(tree)]
    public = [one for one in functions if not one.name.startswith("_")]
    said = [text for one in functions if (text := ast.get_docstring(one))]
    return Size(
        files=len(texts),
        lines=sum(lines),
        median_file=median(lines),
        files_below_40_lines=sum(
            count < 40 for path, count in zip(texts, lines, strict=True) if path.stem != "__init__"
        ),
        functions_a_file=len(functions) / len(texts),
        mean_function=mean((one.end_lineno or one.lineno) - one.lineno + 1 for one in functions),
        public_docstrings=mean(bool(ast.get_docstring(one)) for one in public),
        noun_docstrings=mean(bool(_NOUNS.match(text)) for text in said),
        imported_once=_imported_once(trees),
    )


def sizes(_stage: Stage, _scale: Scale) -> Iterator[Figure]:
    """Report lines and files of the product."""
    size = measure([PROJECT / name for name in FOLDERS])
    detail = f"median file {size.median_file:.0f} lines, mean function {size.mean_function:.1f}"
    yield Figure("lines of the product", "none", size.lines, "lines", detail=detail)
    yield Figure("files of the product", "none", size.files, "files")


def _functions(tree: ast.Module) -> Iterator[Function]:
    return (one for one in ast.walk(tree) if isinstance(one, Function))


def _imported_once(trees: dict[Path, ast.Module]) -> int:
    """Count modules that exactly one other module imports."""
    names = {path: _module(path) for path in trees if path.is_relative_to(PROJECT)}
    importers: dict[str, set[str]] = {name: set() for name in names.values()}
    for path, name in names.items():
        for node in ast.walk(trees[path]):
            if isinstance(node, ast.Import):
                found = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                found = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            for one in found:
                if one in importers and one != name:
                    importers[one].add(name)
    return sum(len(by) == 1 for by in importers.values())


def _module(path: Path) -> str:
    words = path.relative_to(PROJECT).with_suffix("").parts
    return ".".join(words[:-1] if words[-1] == "__init__" else words)


def main() -> None:
    """Print the sizes of the folders that are named, else of the product, as JSON."""
    folders = [Path(word).resolve() for word in sys.argv[1:]]
    size = measure(folders or [PROJECT / name for name in FOLDERS])
    sys.stdout.write(json.dumps(asdict(size), indent=2) + "\n")


if __name__ == "__main__":
    main()
