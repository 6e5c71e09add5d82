"""Properties of the extension module."""

import ctypes
import re
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
