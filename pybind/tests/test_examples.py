"""The programs in examples/ run and leave no files in shared memory."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import backcast as bc
import numpy as np
import pytest
from waits import WATCHDOG_S, killing, watchdog

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs" / "gallery"))
import gallery  # noqa: E402

EXAMPLES = ROOT / "examples"
# tests/adapters runs the examples that need PyTorch, or what builds on it.
ELSEWHERE = ("import torch", "from stable_baselines3")
PROGRAMS = [
    path
    for path in sorted(EXAMPLES.glob("*.py"))
    if not any(line in path.read_text() for line in ELSEWHERE)
]
# Options of programs that would take tens of seconds on a slow machine.
SHORTER = {"ppo_trading": ["--updates", "10", "--episodes", "16"]}
TUTORIALS = ROOT / "docs" / "tutorials"
# Notebooks of the tutorials.
NOTEBOOKS = {
    "four-actors": "notebook",
    "sb3": "sb3",
    "trading": "trading",
    "worker-dies": "worker_dies",
}
# Examples without a picture, and why.
NO_PICTURE = {
    "ray_dqn": "differs from dqn_actors.py by four lines, and where Ray is, Matplotlib is not",
    "sb3": "its page shows what it prints",
    "trading": "its page shows what it prints",
    "worker_dies": "its page shows what it prints",
}
# Programs of two languages: the Python one, and the Rust one that it runs.
PAIRS = {
    "rust_actor_python_learner/learner.py": "rust_actor",
    "python_actors_rust_learner/actors.py": "rust_q_learner",
}
# Prints the mean returns that the notebook logged.
LOGGED = """
for step, numbers in history:
    print(f"{step}: return {numbers.get('fleet/return_mean', 0):.3f}")
"""
# Not a bound of a test: cargo compiles every dependency if `cargo test` has not done so before.
BUILD_S = 900


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.stem for program in PROGRAMS])
def test_an_example_ends_well_and_leaves_no_shared_memory(program: Path, tmp_path: Path) -> None:
    # The timeout only ends a hang; the test does not judge the duration.
    own = tmp_path / "plot_window.svg" if program.stem == "plot_window" else None
    options = [str(own)] if own else SHORTER.get(program.stem, [])
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(program), *options],
        env={**os.environ, "BACKCAST_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout, "an example shows something"
    if own is None:
        own = gallery.drawn(program.stem, ran.stdout, tmp_path)
    else:
        gallery.stamp(program.stem, own)
    assert "<path" in own.read_text(encoding="utf-8")
    own.unlink()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()], "files are left"


def test_the_cells_of_the_notebook_train_an_agent(tmp_path: Path) -> None:
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not [cell for cell in cells if cell["outputs"] or cell["execution_count"]], "clear them"
    # A program on standard input has a main module without a file, like that of a notebook.
    ran = subprocess.run(
        [sys.executable, "-W", "error"],
        input="\n".join("".join(cell["source"]) for cell in cells) + LOGGED,
        env={**os.environ, "BACKCAST_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "\nreturn 1 in 6 steps\n" in ran.stdout, ran.stdout
    gallery.drawn("notebook", ran.stdout, tmp_path).unlink()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()], "files are left"


def test_every_tutorial_has_a_notebook_and_names_it() -> None:
    pages = {path.stem for path in TUTORIALS.glob("*.md")}
    assert pages == set(NOTEBOOKS)
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == set(NOTEBOOKS.values())
    for page, notebook in NOTEBOOKS.items():
        text = (TUTORIALS / f"{page}.md").read_text(encoding="utf-8")
        assert f"examples/{notebook}.ipynb" in " ".join(text.split())


# test_pages.py runs the code of the pages, and tests/adapters that of the page about SB3.
@pytest.mark.parametrize(("page", "notebook"), NOTEBOOKS.items())
def test_a_notebook_is_that_of_its_page(page: str, notebook: str, tmp_path: Path) -> None:
    program, written = TUTORIALS / "notebook.py", tmp_path / "notebook.ipynb"
    argv: list[str | Path] = [sys.executable, program, TUTORIALS / f"{page}.md", written]
    subprocess.run(argv, check=True, timeout=60)
    assert written.read_text() == (EXAMPLES / f"{notebook}.ipynb").read_text(), " ".join(
        map(str, argv[1:])
    )


def test_every_example_has_a_picture_of_today_in_the_gallery() -> None:
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    files = [path for path in EXAMPLES.rglob("*.*") if path.is_file() and path.suffix != ".pyc"]
    inner = [path.relative_to(EXAMPLES).with_suffix("") for path in files]
    names = {path.as_posix() if path.parts[0] == "cleanrl" else path.parts[0] for path in inner}
    stale = {name for name in names if not gallery.is_of_today(name)}
    assert stale == set(NO_PICTURE), "run their tests with BACKCAST_WRITE_GALLERY=1, and look"
    pictures = {gallery.picture_of(name).name for name in names - set(NO_PICTURE)}
    assert {path.name for path in gallery.HERE.glob("*.svg")} == pictures
    assert {name for name in pictures if page.count(f"](gallery/{name})") != 1} == set()
    assert [name for name in names if f"](../examples/{name}" not in page] == []


@pytest.fixture(scope="session")
def rust_examples(request: pytest.FixtureRequest) -> dict[str, str]:
    """Build the Rust examples, or find what `cargo test` built: same profile, same packages."""
    watchdog(request.config, BUILD_S + WATCHDOG_S)
    assert shutil.which("cargo"), "the Rust examples need cargo"
    # Selects the packages of `make test`, so that none is compiled again.
    others = ["backcast-layout", "backcast-benches"]
    packages = ["--workspace", *(f"--exclude={name}" for name in others), "--examples"]
    built = subprocess.run(
        ["cargo", "build", "--locked", "--profile", "test", *packages, "--message-format", "json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=BUILD_S,
        check=True,
    )
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    examples = [m for m in messages if m.get("target", {}).get("kind") == ["example"]]
    return {Path(m["executable"]).name: m["executable"] for m in examples}


def test_the_rust_learner_samples_what_a_python_actor_is_writing(
    rust_examples: dict[str, str], tmp_path: Path
) -> None:
    columns = {"obs": ("f4", (3,)), "reward": "f4"}
    command = [
        rust_examples["rust_learner"],
        "taught",
        "--dir",
        str(tmp_path),
        "--seconds",
        "1",
        "--history",
        "4",
        "--future",
        "2",
    ]
    with (
        bc.ReplayBuffer.create("taught", columns, capacity=5000, dir=tmp_path) as buf,
        buf.writer() as writer,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as learner,
        killing(learner.kill),
    ):
        while learner.poll() is None:
            end = writer.rows_written % 100 == 99
            obs, last = np.zeros(3, "f4"), np.ones(3, "f4")
            writer.append(obs=obs, reward=0.25, next_obs=last if end else obs, terminated=end,
                          truncated=False)  # fmt: skip
        assert learner.stdout is not None
        said = learner.stdout.read()
    assert learner.returncode == 0, said
    assert "next_obs" in said
    # FINAL rows have no reward; were one drawn as a transition, the mean would be lower.
    assert said.rstrip().endswith("mean reward +0.250000"), said
    gallery.drawn("rust_learner", said, tmp_path)


@pytest.mark.parametrize("name", PAIRS)
def test_an_example_of_two_languages_is_short(name: str) -> None:
    folder = (EXAMPLES / name).parent
    assert sum(len(path.read_text().splitlines()) for path in folder.glob("*.*")) <= 120


@pytest.mark.parametrize(("name", "other"), PAIRS.items())
def test_an_example_of_two_languages_reaches_its_values(
    name: str, other: str, rust_examples: dict[str, str], place: Path, tmp_path: Path
) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name, rust_examples[other]],
        env={**os.environ, "BACKCAST_DIR": str(place)},
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "versions old" in ran.stdout, "staleness is reported"
    gallery.drawn(Path(name).parent.name, ran.stdout, tmp_path)
    assert not list(place.iterdir())
