"""The demo's command line."""

from pathlib import Path

import pytest
from backcast.demo.options import Options, parse


def test_no_arguments_give_the_documented_run() -> None:
    assert parse([]) == Options(seconds=30.0, actors=4, envs=8, kill=False, out=Path("out"), seed=0)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--seconds", "0"], "'0' is not a number from 1 to 86400"),
        (["--seconds", "nan"], "'nan' is not a number from 1 to 86400"),
        (["--seconds", "soon"], "'soon' is not a number from 1 to 86400"),
        (["--actors", "0"], "'0' is not a whole number from 1 to 256"),
        (["--actors", "2.5"], "'2.5' is not a whole number"),
        (["--envs", "2000"], "'2000' is not a whole number from 1 to 1024"),
        (["--actors", "256", "--envs", "1024"], "262144 lanes; a ring has at most 4096"),
        (["--capacity", "4096", "--envs", "64"], "give at least 16384"),
        (["--out", __file__], "is a file, not a folder"),
        (["--seed", "-1"], "'-1' is not a whole number from 0"),
        (["--kil"], "there is no option '--kil'; did you mean --kill?"),
        (["--world=moon"], "there is no option '--world=moon'; `backcast demo --help` lists them"),
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


def test_help_shows_examples_and_what_the_demo_needs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        parse(["--help"])
    assert done.value.code == 0
    shown = capsys.readouterr().out
    assert "python -m backcast.demo --kill" in shown
    assert "both halves of the package" in shown
