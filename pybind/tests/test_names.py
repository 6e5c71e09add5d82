"""Names at the top of the package: few, no builtins, and hints for names that are elsewhere."""

from __future__ import annotations

import builtins
import pydoc
import re
import subprocess
import sys
from types import ModuleType

import backcast as bc
import pytest
from backcast import errors, finrl, types
from backcast._elsewhere import ELSEWHERE


def test_there_are_at_most_35() -> None:
    assert len(bc.__all__) == len(set(bc.__all__))
    assert len(bc.__all__) <= 35


def test_each_is_there() -> None:
    assert [name for name in bc.__all__ if not hasattr(bc, name)] == []


@pytest.mark.parametrize("module", [bc, errors, types], ids=lambda module: module.__name__)
def test_none_is_a_builtin(module: object) -> None:
    names = {name for name in vars(module) if not name.startswith("__")}
    assert names & set(dir(builtins)) == set()


def test_functions_are_a_verb_and_a_noun() -> None:
    functions = {name for name in bc.__all__ if name.islower() and name != "__version__"}
    assert functions == {
        *["list_objects", "remove_object", "collect_garbage"],
        *["list_snapshots", "remove_snapshot", "verify_snapshot"],
    }


@pytest.mark.parametrize(("name", "instead"), ELSEWHERE.items())
def test_a_name_that_is_elsewhere_is_answered_with_what_to_write(name: str, instead: str) -> None:
    assert name not in bc.__all__
    answer = re.escape(f"module 'backcast' has no attribute {name!r}; write {instead}")
    with pytest.raises(AttributeError, match=f"{answer}$"):
        getattr(bc, name)
    assert callable(eval(instead, {"bc": bc}))


def test_every_error_and_every_class_for_annotations_is_answered() -> None:
    names = {*errors.__all__, *types.__all__} - set(bc.__all__)
    assert names < set(ELSEWHERE)


@pytest.mark.parametrize("module", [bc, finrl], ids=lambda module: module.__name__)
def test_help_and_dir_list_what_is_imported_at_its_first_use(module: ModuleType) -> None:
    code = (
        f"import pydoc, {module.__name__} as m; "
        "assert sorted(set(m.__all__) - set(dir(m))) == []; print(pydoc.render_doc(m))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    shown = pydoc.plain(done.stdout)
    for name in set(module.__all__) - {"__version__"}:
        assert re.search(rf"^ +(class )?{name}\b", shown, re.MULTILINE), name
