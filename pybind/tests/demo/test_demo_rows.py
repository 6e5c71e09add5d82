"""The checksum of the demo's rows: whole rows pass, every flipped byte is counted."""

import copy
from typing import Any

import numpy as np
import pytest
from backcast.demo.rows import (
    OBS_COLUMNS,
    STEP_COLUMNS,
    checksums,
    column,
    obs_sums,
    schema,
    torn_next_rows,
    torn_rows,
)


def made_batch(shape: tuple[int, ...], tickers: int = 4) -> dict[str, Any]:
    draw = np.random.default_rng(3)
    batch: dict[str, Any] = {"portfolio": {}}
    for path, (dtype, rest, _) in schema(tickers).items():
        values = draw.integers(1, 1000, size=(*shape, *rest)).astype(dtype)
        *groups, name = path.split("/")
        (batch[groups[0]] if groups else batch)[name] = values
    batch["checksum"] = checksums(batch, rank=len(shape)).reshape(shape)
    return batch


def flip(batch: dict[str, Any], path: str, row: int, byte: int) -> dict[str, Any]:
    torn = copy.deepcopy(batch)
    column(torn, path).reshape(len(batch["day"]), -1).view(np.uint8)[row, byte] ^= 0x10
    return torn


def test_whole_rows_are_not_torn() -> None:
    assert torn_rows(made_batch((256,))) == 0


@pytest.mark.parametrize("path", [*OBS_COLUMNS, *STEP_COLUMNS, "checksum"])
def test_every_flipped_byte_of_a_row_is_counted(path: str) -> None:
    batch = made_batch((16,))
    width = column(batch, path).reshape(16, -1).view(np.uint8).shape[1]
    for byte in range(width):
        assert torn_rows(flip(batch, path, row=byte % 16, byte=byte)) == 1


def test_a_row_mixed_from_two_rows_is_torn() -> None:
    batch = made_batch((16,))
    mixed = copy.deepcopy(batch)
    for path in STEP_COLUMNS:
        column(mixed, path)[5] = column(batch, path)[6]
    assert torn_rows(mixed) == 1


def test_windows_count_unmasked_rows_only() -> None:
    batch = made_batch((8, 5))
    mask = np.ones((8, 5), bool)
    batch["reward"][2, 3] += 1.0
    assert torn_rows(batch, rank=2, mask=mask) == 1
    mask[2, 3] = False
    assert torn_rows(batch, rank=2, mask=mask) == 0


def test_the_next_observation_is_checked_against_its_own_checksum() -> None:
    batch = made_batch((16,))
    follower = {f"next_{name}": values for name, values in copy.deepcopy(batch).items()}
    assert torn_next_rows(follower) == 0
    follower["next_portfolio"]["cash"][7] += 1.0
    assert torn_next_rows(follower) == 1


def test_the_upper_half_of_a_checksum_is_the_observation_alone() -> None:
    batch = made_batch((16,))
    np.testing.assert_array_equal(batch["checksum"] >> np.uint64(32), obs_sums(batch))
