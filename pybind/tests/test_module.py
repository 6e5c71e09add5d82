"""Properties of the extension module, and of the classes of the package."""

import ast
import ctypes
import re
from functools import cache
from pathlib import Path

from backcast import _native

ROOT = Path(__file__).parents[2]
# Constants of the C API since Python 3.13.
SLOT_GIL, GIL_NOT_USED = 4, 1


class Slot(ctypes.Structure):
    """``PyModuleDef_Slot``."""

    _fields_ = [("number", ctypes.c_int), ("value", ctypes.c_void_p)]


class Definition(ctypes.Structure):
    """``PyModuleDef``."""

    _fields_ = [
        ("object", ctypes.c_byte * object.__basicsize__),
        ("init", ctypes.c_void_p),
        ("index", ctypes.c_ssize_t),
        ("copy", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("doc", ctypes.c_char_p),
        ("size", ctypes.c_ssize_t),
        ("methods", ctypes.c_void_p),
        ("slots", ctypes.POINTER(Slot)),
    ]


def test_the_module_says_that_it_needs_the_interpreters_lock() -> None:
    get = ctypes.pythonapi.PyModule_GetDef
    get.argtypes, get.restype = [ctypes.py_object], ctypes.POINTER(Definition)
    definition = get(_native).contents
    assert definition.name == b"_native"
    slots = {}
    for slot in definition.slots:
        if slot.number == 0:
            break
        slots[slot.number] = slot.value
    assert slots, "the module is initialised by slots"
    # Interpreters assume that a module without this slot needs the lock.
    assert slots.get(SLOT_GIL) != GIL_NOT_USED
    # Builds for the stable ABI of Python 3.11 have no such slot, whatever is declared.
    source = (ROOT / "pybind" / "src" / "lib.rs").read_text()
    declared = re.findall(r"#\[pyo3::pymodule(.*?)\]\nmod _native", source)
    assert declared == ["(gil_used = true)"]


# Written by their users: configurations of markets, transitions that are stored, fills.
CHANGEABLE = ("sim/", "finrl/", "envs/_fill.py")
# Classes with the attributes that another library's class has.
FOREIGN = ("cleanrl.py", "envs/", "rllib/", "sb3/", "torch/", "torchrl/")


def test_options_and_results_cannot_be_changed() -> None:
    package, found = Path(_native.__file__).parent, 0
    for file in sorted(package.rglob("*.py")):
        path = file.relative_to(package).as_posix()
        if path.startswith(CHANGEABLE):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.ClassDef) or node.name not in exports(package):
                continue
            decorators = [*map(ast.unparse, node.decorator_list)]
            made = [of for of in decorators if of.startswith("dataclass")]
            for decorator in made:
                assert "frozen=True" in decorator, f"{path}: {node.name}"
                found += 1
            if not made and not path.startswith(FOREIGN):
                assert not assigned(node), f"{path}: {node.name}"
    assert found > 20


def assigned(node: ast.ClassDef) -> set[str]:
    """Return the public attributes that methods of a class assign to `self`."""
    parts = [part for part in ast.walk(node) if isinstance(part, ast.Attribute)]
    stored = [part for part in parts if isinstance(part.ctx, ast.Store)]
    names = {part.attr for part in stored if ast.unparse(part.value) == "self"}
    return {name for name in names if not name.startswith("_")}


@cache
def exports(package: Path) -> set[str]:
    """Return all names in a list ``__all__`` of the package."""
    found: set[str] = set()
    for file in package.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                parts = ast.walk(node.value)
                found |= {str(part.value) for part in parts if isinstance(part, ast.Constant)}
    return found
