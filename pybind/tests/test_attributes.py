"""Names that newcomers try: parts of the package, columns of a batch, appending to a buffer."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import backcast as bc
import pytest


@pytest.fixture
def buf() -> Iterator[Any]:
    with bc.ReplayBuffer.create(None, {"obs": {"x": "f4"}, "reward": "f4"}, capacity=100) as made:
        with made.writer() as writer:
            for step in range(10):
                writer.append(obs={"x": step}, reward=1, terminated=False, truncated=False)
        yield made


@pytest.mark.parametrize("part", ["plot", "envs", "sim", "types"])
def test_parts_are_imported_when_they_are_asked_for(part: str) -> None:
    code = (
        "import sys, backcast as bc\n"
        f"assert 'backcast.{part}' not in sys.modules\n"
        f"print(bc.{part}.__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == f"backcast.{part}\n"


def test_a_module_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError, match=r"'backcast'.*'replay'"):
        bc.replay  # type: ignore[attr-defined]  # noqa: B018 - the attribute is asked for


@pytest.mark.parametrize("name", ["append", "add", "extend", "push", "put", "insert", "store"])
def test_a_buffer_says_who_appends(buf: Any, name: str) -> None:  # noqa: ANN401
    assert not hasattr(buf, name)
    with pytest.raises(AttributeError, match=rf"'{name}'.*\bbuf\.writer\(\)"):
        getattr(buf, name)
    with pytest.raises(AttributeError, match=r"'nothing'$"):
        _ = buf.nothing


def test_a_batch_names_its_columns(buf: Any) -> None:  # noqa: ANN401
    batch = buf.sample(4)
    with pytest.raises(bc.errors.ColumnError, match=r"`observation`.*\bnext_obs\b"):
        batch["observation"]
    with pytest.raises(KeyError):
        batch["mask"]
    assert batch.get("observation") is None
    assert "observation" not in batch
    with pytest.raises(AttributeError, match=r"'reward'.*batch\[\"reward\"\]"):
        _ = batch.reward
    with pytest.raises(AttributeError, match=r"'nothing'"):
        _ = batch.nothing
    for again in (copy.deepcopy(batch), pickle.loads(pickle.dumps(batch)), copy.copy(batch)):
        assert again.keys() == batch.keys()
        assert (again["reward"] == batch["reward"]).all()
