"""The stub and the annotations agree with the modules."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parents[1] / "python"

NOT_AN_API = {
    r"backcast\.__main__": "runs the command line when it is imported",
    r"backcast\._autoreset\.Word": "an alias for the type checker alone",
    r"backcast\.demo(\..*)?": "a program; its aliases exist for the type checker alone",
    r"backcast\.\w+\._.*": "private modules, whose aliases exist for the type checker alone",
}
"""Allowed differences, with reasons."""

ADAPTERS = [r"backcast\.(cleanrl|jax|ray|rllib|sb3|torch|torchrl)"]
"""Modules whose libraries may be missing here, so that they cannot be imported."""
THEIRS = [
    *("fastapi", "h5py", "jax", "nicegui", "pettingzoo", "pyarrow", "ray", "stable_baselines3"),
    *("starlette", "tensordict", "torch", "torchrl", "uvicorn"),
]


def test_stubs_and_annotations_of_every_module_agree_with_it(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    allowed = tmp_path / "allowed"
    allowed.write_text("\n".join([*NOT_AN_API, *ADAPTERS]))
    settings = tmp_path / "mypy.ini"
    missing = (f"[mypy-{name}.*]\nignore_missing_imports = True\n" for name in THEIRS)
    settings.write_text("[mypy]\n" + "".join(missing))
    done = subprocess.run(
        [
            *[sys.executable, "-m", "mypy.stubtest", "backcast"],
            *["--allowlist", str(allowed), "--ignore-unused-allowlist"],
            *["--mypy-config-file", str(settings)],
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(PACKAGES)},
        check=False,
        timeout=60,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    [checked] = re.findall(r"in (\d+) modules", done.stdout)
    modules = {*PACKAGES.glob("backcast/**/*.py"), *PACKAGES.glob("backcast/**/*.pyi")}
    assert int(checked) == len(modules), said
