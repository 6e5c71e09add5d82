"""Options of a sampler that are objects: round trips, and the errors for other values and names."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import backcast as bc
import numpy as np
import pytest
from counted_ring import filled
from facts import missing

ANY: Any = bc
"""The package typed as `Any`, for calls that type checkers refuse."""

UNEXPECTED = Path(__file__).parents[2] / "src" / "argument" / "unexpected.rs"


def rising(batch: int) -> float:
    """Return a beta that grows."""
    return min(1.0, 0.4 + batch / 100)


WORDS = ["uniform", "fifo", "lifo", "lane_strata"]
OBJECTS: list[Any] = [
    bc.Priority(),
    bc.Priority(0.7, (0.4, 100), 0.0, stratified=True, normalize="table", table="mine"),
    bc.Priority(alpha=1.0, beta=1.0, eps=0.5),
    bc.Largest(),
    bc.Largest(alpha=0.7, eps=0.0, table="mine"),
    bc.Smallest(),
    bc.Smallest(alpha=0.7, eps=0.0, table="mine"),
    bc.Recency(7.5),
    bc.Epoch(),
    bc.Epoch(shuffle=False, seed=2**64 - 1, table="mine"),
    bc.Consume(),
    bc.Consume(max_times_sampled=3, shuffle=True, seed=5, table="mine"),
]
FORMS = [
    bc.WholeEpisodes(),
    bc.WholeEpisodes("ragged"),
    bc.WholeEpisodes("padded", max_length=30),
]


def name_of(option: object) -> str:
    """Return a test id without memory addresses."""
    return option if isinstance(option, str) else type(option).__name__


class Odd:
    """Object that no option accepts."""

    def __repr__(self) -> str:
        return "ODD"


@pytest.mark.parametrize("select", [*WORDS, *OBJECTS], ids=name_of)
def test_a_selector_comes_back_from_its_sampler_and_from_a_state(select: Any) -> None:  # noqa: ANN401
    with filled() as buf, buf.sampler(seed=1, select=select) as sampler:
        sampler.sample(4)
        with buf.sampler(state=sampler.state()) as again, buf.sampler(select=again.select) as third:
            for made in (sampler, again, third):
                assert made.select == select
                assert type(made.select) is type(select)
                assert repr(made.select) == repr(select)
                assert f", select {select!r}, seed " in repr(made)


@pytest.mark.parametrize("weights", [[1.0], (1.0,), np.ones(1, "f4"), np.array([1])])
def test_weights_of_lanes_come_back_as_a_list(weights: Any) -> None:  # noqa: ANN401
    select = bc.LaneWeights(weights)
    with (
        filled() as buf,
        buf.sampler(seed=1, select=select) as sampler,
        buf.sampler(state=sampler.state()) as again,
    ):
        for made in (sampler, again):
            assert isinstance(made.select, bc.LaneWeights)
            assert made.select.weights == [1.0]


@pytest.mark.parametrize("form", FORMS, ids=name_of)
def test_a_form_comes_back_from_its_sampler_and_from_a_state(form: bc.WholeEpisodes) -> None:
    with (
        filled() as buf,
        buf.sampler(seed=1, form=form) as sampler,
        buf.sampler(state=sampler.state()) as again,
    ):
        assert sampler.form == again.form == form
        assert repr(again.form) == repr(form)


def test_a_sampler_without_options_shows_the_defaults() -> None:
    with filled() as buf, buf.sampler() as sampler:
        assert (sampler.select, sampler.form, sampler.share) == ("uniform", None, (0, 1))


def test_a_function_beta_comes_back_where_it_was_given() -> None:
    select = bc.Priority(alpha=0.7, beta=rising)
    with filled() as buf, buf.sampler(seed=1, select=select) as sampler:
        assert sampler.select == select
        with buf.sampler(state=sampler.state(), select=sampler.select) as again:
            assert isinstance(again.select, bc.Priority)
            assert again.select.beta is rising


@pytest.mark.parametrize(
    "option", [*OBJECTS, bc.Priority(beta=rising), bc.LaneWeights([1.0, 2.0]), *FORMS], ids=name_of
)
def test_options_are_pickled_copied_and_shown(option: Any) -> None:  # noqa: ANN401
    ways: list[Callable[[Any], Any]] = [
        copy.copy,
        copy.deepcopy,
        dataclasses.replace,
        lambda one: pickle.loads(pickle.dumps(one)),
    ]
    if sys.version_info >= (3, 13):
        ways.append(copy.replace)
    for way in ways:
        again = way(option)
        assert type(again) is type(option)
        assert dataclasses.asdict(again) == dataclasses.asdict(option)
        assert repr(again) == repr(option)
    names = {type(option).__name__: type(option)}
    fields = [f"{one.name}={getattr(option, one.name)!r}" for one in dataclasses.fields(option)]
    assert repr(option) == f"{type(option).__name__}({', '.join(fields)})"
    assert type(option).__module__ == "backcast"
    if not callable(getattr(option, "beta", None)):
        assert dataclasses.asdict(eval(repr(option), names)) == dataclasses.asdict(option)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(option, dataclasses.fields(option)[0].name, 1)


@pytest.mark.parametrize("option", [*OBJECTS, *FORMS], ids=name_of)
def test_options_with_equal_fields_are_equal(option: Any) -> None:  # noqa: ANN401
    again = dataclasses.replace(option)
    assert again == option
    assert hash(again) == hash(option)
    first = dataclasses.fields(option)[0].name
    other = dataclasses.replace(option, **{first: "another"})
    assert other != option
    assert getattr(other, first) == "another"


def test_largest_and_smallest_priorities_are_not_equal() -> None:
    assert len({bc.Largest(), bc.Smallest(), bc.Priority()}) == 3


NUMBERS = {"alpha", "beta", "eps", "half_life", "seed", "max_times_sampled", "max_length"}
FIELDS = [
    pytest.param(option, field.name, id=f"{type(option).__name__}-{field.name}")
    for option in [
        bc.Priority(),
        bc.Largest(),
        bc.Smallest(),
        bc.Recency(9),
        bc.LaneWeights([1]),
        bc.Epoch(),
        bc.Consume(),
        bc.WholeEpisodes(),
        bc.Rollout(8, 1),
    ]
    for field in dataclasses.fields(cast(Any, option))
]


@pytest.mark.parametrize(("option", "field"), FIELDS)
def test_a_field_of_another_type_is_named_with_what_to_give(option: Any, field: str) -> None:  # noqa: ANN401
    values: list[Any] = [Odd(), b"x", {}]
    # A bool is not accepted as a number.
    values += [True, np.True_] if field in NUMBERS else []
    # `max_length=None` and `lanes=None` are valid: they set no limit.
    values += [] if field in ("max_length", "lanes") else [None]
    key = "form" if isinstance(option, bc.WholeEpisodes | bc.Rollout) else "select"
    with filled() as buf:
        for value in values:
            wrong: dict[str, Any] = {key: dataclasses.replace(option, **{field: value})}
            with pytest.raises(bc.BackcastError, match=rf"^{field}\b"):
                buf.sampler(seed=1, **wrong)
        assert (buf.stats()["claims"], buf.stats()["tables"]) == ([], [])


@pytest.mark.parametrize(
    ("word", "instead"),
    [
        ("priority", "bc.Priority()"),
        ("prioritized", "bc.Priority()"),
        ("max_priority", "bc.Largest()"),
        ("min_priority", "bc.Smallest()"),
        ("recency", "bc.Recency(half_life)"),
        ("lane_weights", "bc.LaneWeights(weights)"),
        ("epoch", "bc.Epoch()"),
        ("consume", "bc.Consume()"),
        ("newest", '"uniform"'),
        ("", '"lane_strata"'),
    ],
)
def test_a_word_that_is_no_selector_is_answered_with_one(word: str, instead: str) -> None:
    other: Any = word
    with filled() as buf, pytest.raises(bc.errors.SampleError) as refused:
        buf.sampler(select=other)
    assert missing(refused.value, ["select", f"'{word}'", instead]) == []


@pytest.mark.parametrize(
    "other",
    [3, Odd(), 0.6, bc.Epoch, bc.WholeEpisodes(), bc.RateLimiter(8), {"alpha": 0.6}],
    ids=repr,
)
def test_an_object_that_is_no_selector_is_refused(other: Any) -> None:  # noqa: ANN401
    message = r'\bselect\b.*"uniform".*bc\.Epoch'
    with filled() as buf, pytest.raises(bc.errors.ArgumentTypeError, match=message):
        buf.sampler(select=other)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: ANY.Epoch(max_times_sampled=2), "`max_times_sampled`"),
        (lambda: ANY.Epoch(alpha=0.6), "`alpha`"),
        (lambda: ANY.Largest(beta=0.4), "`beta`"),
        (lambda: ANY.Smallest(stratified=True), "`stratified`"),
        (lambda: ANY.Recency(9, table="x"), "`table`"),
        (lambda: ANY.Recency(), "(half_life)"),
        (lambda: ANY.LaneWeights(), "LaneWeights()"),
        (lambda: ANY.Recency(9, 3), "Recency()"),
        (lambda: ANY.Priority(exponent=0.6), "`alpha`"),
        (lambda: ANY.Priority(priority=0.6), "`alpha`"),
        (lambda: ANY.Priority(weights="table"), "`normalize`"),
        (lambda: ANY.Priority(epsilon=0.0), "`eps`"),
        (lambda: ANY.Consume(times=2), "`max_times_sampled`"),
        (lambda: ANY.WholeEpisodes(length=9), "`max_length`"),
        (lambda: ANY.Rollout(num_steps=9), "`length`"),
        (lambda: ANY.Rollout(), "length"),
    ],
)
def test_a_field_that_an_option_does_not_have_is_refused(made: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(bc.errors.ArgumentTypeError, match=re.escape(message)):
        made()


def elsewhere() -> list[tuple[str, str, str]]:
    """Return the rows of the Rust table `ELSEWHERE`: call, keyword, and what to write instead."""
    source = UNEXPECTED.read_text(encoding="utf-8")
    found = re.search(
        r"const ELSEWHERE: \[\(&str, &str, &str\); (\d+)\] = \[(.*?)\];", source, re.S
    )
    assert found is not None
    rows = re.findall(r'\(\s*"(\w+)",\s*"(\w+)",\s*"([^"]+)",?\s*\)', found[2])
    assert len(rows) == int(found[1])
    return rows


CALLS: dict[str, Callable[..., Any]] = {
    "sampler": lambda buf, **given: buf.sampler(**given),
    "sample": lambda buf, **given: buf.sample(4, **given),
    "create": lambda buf, **given: bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=9, **given),
    "attach": lambda buf, **given: bc.ReplayBuffer.attach("nobody", **given),
    "writer": lambda buf, **given: buf.writer(**given),
    "batches": lambda buf, **given: buf.sampler().batches(4, **given),
}


@pytest.mark.parametrize(("call", "keyword", "instead"), elsewhere())
def test_every_keyword_of_other_libraries_and_of_objects_is_answered(
    call: str, keyword: str, instead: str
) -> None:
    with filled() as buf, pytest.raises(bc.errors.ArgumentTypeError) as raised:
        CALLS[call](buf, **{keyword: 1})
    message = str(raised.value)
    assert missing(message, [f"{call}()", f"`{keyword}`", instead]) == []


@pytest.mark.parametrize("instead", sorted({instead for _, _, instead in elsewhere()}))
def test_every_answer_names_what_there_is(instead: str) -> None:
    for name, field in re.findall(r"bc\.(\w+)\((\w*)", instead):
        option = getattr(bc, name)
        if name != "RateLimiter":
            fields = {one.name for one in dataclasses.fields(option)}
            assert field in fields | {""}, instead
    keyword = re.match(r"(\w+)=", instead)
    signatures = [
        str(cast(Any, call).__text_signature__)
        for call in (
            bc.ReplayBuffer.sampler,
            bc.ReplayBuffer.create,
            bc.ReplayBuffer.attach,
            bc.ReplayBuffer.writer,
        )
    ]
    if keyword is not None:
        assert any(re.search(rf"\b{keyword[1]}\b", one) for one in signatures), instead
