"""Parameters that are saved with a snapshot and loaded from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from saved_ring import ring
from waits import read_line

Weights = dict[str, Any]


def weights(value: float) -> Weights:
    body = {"weight": np.full((3, 2), value, "f4"), "mask": np.arange(9) % 2 == 1}
    return {"body": body, "step": np.int64(value)}


def policy(place: Path, name: str = "policy") -> bc.Params:
    return bc.Params.create(name, weights(0), dir=place)


def test_version_and_arrays_come_back(place: Path, tmp_path: Path) -> None:
    with ring(place) as buf, policy(place) as params, policy(place, "target") as target:
        params.publish(weights(7), version=70)
        saved = buf.snapshot("a", store=tmp_path, params=[params, "target"])
        params.publish(weights(8))
        buf.snapshot("b", store=tmp_path, params=params)
        buf.snapshot("c", store=tmp_path, params="target")
        buf.snapshot("d", store=tmp_path, params=())
        assert target.version == 0
    assert saved["files_written"] == 2
    listed = [one["params"] for one in bc.list_snapshots(store=tmp_path)]
    assert listed == [{"policy": 70, "target": 0}, {"policy": 71}, {"target": 0}, {}]

    like = weights(0)
    with bc.Params.load("walk@a", "policy", like=like, store=tmp_path, dir=place) as params:
        assert (params.name, params.version, params.pull(), params.pull()) == (
            "policy",
            70,
            70,
            None,
        )
        assert params.arrays["body"]["weight"].tolist() == [[7.0] * 2] * 3
        np.testing.assert_array_equal(params.arrays["body"]["mask"], like["body"]["mask"])
        with bc.Params.attach("policy", dir=place) as learner:
            assert learner.publish(weights(9)) == 71
        assert params.latest()["step"] == 9
    with bc.Params.load(tmp_path / "walk@b", "policy", "old", dir=place) as params:
        assert (params.name, params.version, int(params.latest()["step"])) == ("old", 71, 8)
    with bc.Params.load("walk@c", "target", store=tmp_path, dir=place) as params:
        assert params.version == 0


def test_a_taken_name_is_refused_or_replaced(place: Path, tmp_path: Path) -> None:
    with ring(place) as buf, policy(place) as params:
        params.publish(weights(7))
        buf.snapshot("a", store=tmp_path, params=params)
        with pytest.raises(bc.ExistsError, match="policy"):
            bc.Params.load("walk", "policy", store=tmp_path, dir=place)
        exist: Any = "attach"
        with pytest.raises(bc.errors.ArgumentError, match=r"Params\.attach"):
            bc.Params.load("walk", "policy", store=tmp_path, dir=place, exist=exist)
        how: dict[str, Any] = {"exist": "replace", "persistent": True}
        bc.Params.load("walk", "policy", store=tmp_path, dir=place, **how).close()
        assert params.stats()["version"] == 1
    with bc.Params.attach("policy", dir=place) as params:
        assert (params.version, int(params.latest()["step"])) == (1, 7)
        params.unlink()


def test_refusals_say_what_there_is(place: Path, tmp_path: Path) -> None:
    with ring(place) as buf, policy(place) as params, bc.Params.create(None, weights(0)) as private:
        refused: list[tuple[Any, type[Exception], str]] = [
            (private, bc.errors.ArgumentError, r"\bname\b"),
            ([params, params], bc.errors.ArgumentError, "`policy`"),
            ("polcy", bc.NotFoundError, "`polcy`.*`policy`"),
            (7, bc.errors.ArgumentTypeError, r"\bparams\b.*\b7\b"),
            (
                [params, None],
                bc.errors.ArgumentTypeError,
                r"\bparams\b.*\bNone\b",
            ),
        ]
        for given, error, text in refused:
            with pytest.raises(error, match=text):
                buf.snapshot("a", store=tmp_path, params=given)
        assert bc.list_snapshots(store=tmp_path) == []
        buf.snapshot("a", store=tmp_path, params=params)
    with pytest.raises(bc.NotFoundError, match=r"`target`.*`policy`"):
        bc.Params.load("walk", "target", store=tmp_path, dir=place)
    like = {"w": np.zeros(3)}
    with pytest.raises(bc.errors.SchemaError, match="`body/weight`"):
        bc.Params.load("walk", "policy", like=like, store=tmp_path, dir=place, persistent=True)
    assert bc.list_objects(dir=place) == []


@pytest.mark.parametrize("how", ["flipped", "cut", "missing"])
def test_a_damaged_file_makes_no_parameters(place: Path, tmp_path: Path, how: str) -> None:
    with ring(place) as buf, policy(place) as params:
        params.publish(weights(7))
        buf.snapshot("a", store=tmp_path, params=params)
    file = Path(bc.list_snapshots(store=tmp_path)[0]["files"][-1])
    good = file.read_bytes()
    at = good.index(np.full(6, 7, "f4").tobytes())
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(good[:-1] if how == "cut" else good[:at] + b"\1" + good[at + 1 :])
    with pytest.raises(bc.errors.CorruptError, match=f"`walk@a`.*{file}"):
        bc.Params.load("walk", "policy", store=tmp_path, dir=place)
    assert bc.list_objects(dir=place) == []
    assert not bc.verify_snapshot("walk", store=tmp_path)["whole"]
    bc.ReplayBuffer.load("walk", store=tmp_path, dir=place).close()  # its rows are whole


LEARNER = """
import sys, backcast as bc, numpy as np
place, store = sys.argv[1:]
buf = bc.ReplayBuffer.attach("walk", dir=place)
params = bc.Params.create("policy", {"w": np.zeros(250_000, "f4")}, dir=place)
for version in range(1, 10_000):
    params.publish({"w": np.full(250_000, version, "f4")})
    buf.snapshot("latest", store=store, params=params, replace=True)
    print(version, flush=True)
"""


@pytest.mark.parametrize("rounds", [1, 2, 3, 5])
def test_a_learner_killed_while_it_saves_leaves_whole_parameters(
    place: Path, tmp_path: Path, rounds: int
) -> None:
    arguments = [sys.executable, "-c", LEARNER, str(place), str(tmp_path)]
    with ring(place), subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as learner:
        assert learner.stdout is not None
        said = [int(read_line(learner)) for _ in range(rounds)][-1]
        learner.kill()
        rest = learner.stdout.read().split()
    last = int(rest[-1]) if rest else said
    with bc.Params.load("walk@latest", "policy", store=tmp_path, dir=place) as params:
        assert params.version in (last, last + 1)
        assert (params.latest()["w"] == params.version).all()
    assert bc.verify_snapshot("walk", store=tmp_path)["whole"]
