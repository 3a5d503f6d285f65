"""Which test files import a module of the product, themselves or by a helper of the tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def importers_of(module: Path, project: Path) -> list[Path]:
    """Return the test files to run for a module, those nearest to it first.

    First those that import the module, then those that import a package which gives its names out,
    then those that do so by a helper in `tests`.
    """
    trees = {
        path: set(_imports(ast.parse(path.read_text("utf-8"))))
        for path in sorted((project / "tests").rglob("*.py"))
    }
    name = _dotted(module, project)
    package = name.rpartition(".")[0]
    wanted = {name, package} if "." in package else {name}
    found = [path for path, names in trees.items() if names & wanted]
    helpers = {_dotted(path, project) for path in found if not _is_test(path)}
    later = [path for path, names in trees.items() if names & helpers]
    direct = [path for path in found if name in trees[path]]
    return list(dict.fromkeys(path for path in (*direct, *found, *later) if _is_test(path)))


def _is_test(path: Path) -> bool:
    return path.name.startswith("test_")


def _dotted(path: Path, project: Path) -> str:
    words = path.relative_to(project).with_suffix("").parts
    return ".".join(words[:-1] if words[-1] == "__init__" else words)


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
