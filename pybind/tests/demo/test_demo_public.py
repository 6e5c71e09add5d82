"""The demo uses public names only, as a user would."""

import ast
from pathlib import Path

import backcast.demo
import pytest

SOURCES = sorted(Path(backcast.demo.__file__).parent.glob("*.py"))


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_names(tree: ast.AST) -> set[str]:
    """Return private names that are imported, or taken from anything but `self`."""
    found: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=module):
                found += [*(module or "").split("."), *(alias.name for alias in node.names)]
            case ast.Import():
                found += [part for alias in node.names for part in alias.name.split(".")]
            case ast.Attribute(value=ast.Name(id="self")):
                pass
            case ast.Attribute(attr=attribute):
                found.append(attribute)
    return {name for name in found if private(name)}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_the_demo_uses_public_names_alone(source: Path) -> None:
    assert private_names(ast.parse(source.read_text())) == set()


def test_private_names_are_found() -> None:
    program = "import a._b\nfrom c._d import e\nfrom f import _g\nx._h\nself._i\ny.__doc__"
    assert private_names(ast.parse(program)) == {"_b", "_d", "_g", "_h"}
