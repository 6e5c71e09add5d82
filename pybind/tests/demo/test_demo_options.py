"""The demo's command line."""

from pathlib import Path

import pytest
from backcast.demo.options import Options, parse
from backcast.demo.report import equity_caution, verdict


def test_no_arguments_give_the_documented_run() -> None:
    assert parse([]) == Options(seconds=30.0, actors=4, envs=8, kill=False, out=Path("out"), seed=0)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--seconds", "0"], "0 is not within 1 .. 86400 seconds"),
        (["--seconds", "nan"], "nan is not within"),
        (["--seconds", "soon"], "'soon' is not a number of seconds"),
        (["--actors", "0"], "0 is not within 1 .. 256"),
        (["--actors", "many"], "'many' is not a whole number"),
        (["--envs", "2000"], "2000 is not within 1 .. 1024"),
        (["--actors", "256", "--envs", "1024"], "262144 lanes; a ring has at most 4096"),
        (["--capacity", "4096", "--envs", "64"], "give at least 16384"),
        (["--panel", "/no/such.csv"], "no file '/no/such.csv'"),
        (["--macro", "VIX"], "give --panel FILE.csv too"),
        (["--out", __file__], "is a file, not a folder"),
        (["--seed", "-1"], "-1 is not within"),
        (["--world", "moon"], "invalid choice: 'moon'"),
        (["--world", "trading", "--kill"], "--kill belongs to the world of daily prices"),
        (["--kil"], "there is no option '--kil'; did you mean --kill?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_option_is_refused_with_its_reason(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        parse(arguments)
    assert refused.value.code == 2
    assert reason in capsys.readouterr().err


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        parse(["--help"])
    assert done.value.code == 0
    assert "--kill" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "trivial", "words"),
    [
        (0.9, 1.0, "10.0% better than the train-set mean"),
        (1.0, 1.0, "no better than the train-set mean (0.0% worse)"),
        (1.1, 1.0, "no better than the train-set mean (10.0% worse)"),
        (None, 1.0, "not measured"),
    ],
)
def test_the_verdict_is_honest(model: float | None, trivial: float, words: str) -> None:
    assert verdict(model, trivial) == words


def test_equity_without_skill_comes_with_a_caution() -> None:
    skilled = {"heldout_mse_model": 0.9, "heldout_mse_trivial": 1.0}
    assert equity_caution(skilled) == ""
    assert "luck" in equity_caution({**skilled, "heldout_mse_model": 1.0})
