"""Messages quote the caller's paths and names unchanged."""

from __future__ import annotations

from pathlib import Path

import backcast as bc
import pytest

LIKE_OPTIONS = ["run history 80", "stride 4", "use a prefetch of 0", "no dict or no JSON object"]


@pytest.mark.parametrize("name", LIKE_OPTIONS)
def test_a_folder_stays_as_it_is(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    with pytest.raises(bc.NotFoundError) as raised:
        bc.ReplayBuffer.attach("pong", dir=folder)
    assert str(folder) in str(raised.value)


@pytest.mark.parametrize("name", LIKE_OPTIONS)
def test_a_file_stays_as_it_is(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (f"{name}.csv", str(tmp_path / name / "x.csv")):
        with pytest.raises(bc.errors.PanelError) as raised:
            bc.Panel.from_csv(path)
        assert path in str(raised.value)


@pytest.mark.parametrize("name", LIKE_OPTIONS)
def test_a_column_stays_as_it_is(name: str) -> None:
    with pytest.raises(bc.errors.SchemaError) as raised:
        bc.ReplayBuffer.create(None, {name: "f4"}, capacity=10)
    assert f"`{name}`" in str(raised.value)


def test_a_ring_of_too_few_lanes_says_the_keyword(place: Path) -> None:
    with (
        bc.ReplayBuffer.create("pong", {"obs": "f4"}, capacity=100, dir=place) as buf,
        pytest.raises(bc.BackcastError, match="lanes=3"),
    ):
        buf.writer(3, "next_step")
