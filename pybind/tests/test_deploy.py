"""The files of `deploy/`: what they name exists, and what they start runs, without containers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import backcast as bc
import pytest
import yaml
from daemons import serving
from waits import read_line

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def services() -> dict[str, Any]:
    """Return the services of the Compose file."""
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"])


def test_files_that_are_mounted_or_copied_exist() -> None:
    mounts = [m.split(":")[0] for s in services().values() for m in s.get("volumes", [])]
    copied = re.findall(
        r"^COPY (?:--chown=\S+ )?(deploy\S+)", (DEPLOY / "Dockerfile").read_text(), re.M
    )
    assert len(mounts) == 5
    assert copied == ["deploy/cartpole.py"]
    assert [m for m in mounts if not (DEPLOY / m).is_file()] == []
    assert (ROOT / copied[0]).is_file()
    assert (DEPLOY / services()["memory"]["build"]["context"] / "deploy/Dockerfile").is_file()


def test_all_share_memory_and_processes_that_outlive_the_daemon() -> None:
    workers = [s for name, s in services().items() if name in ("actor", "learner")]
    assert len(workers) == 2
    for worker in workers:
        assert worker["ipc"] == worker["pid"] == "service:memory"
    daemon, memory = services()["daemon"], services()["memory"]
    assert daemon["ipc"] == daemon["pid"] == "service:memory"
    assert memory["ipc"] == "shareable"
    assert memory["shm_size"] == "4gb"
    assert memory["entrypoint"] == ["sleep", "infinity"]


def test_the_image_is_built_without_what_git_ignores() -> None:
    left_out = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    ignored = (ROOT / ".gitignore").read_text().split()
    assert len(ignored) > 5
    names = {name.strip("/") for name in ignored}
    assert names - {name.removeprefix("**/") for name in left_out} == set()


def test_bills_of_two_runs_in_two_folders_are_equal() -> None:
    names = ["core", "layout", "pybind"]

    def bill(folder: str, run: int, names: list[str]) -> str:
        refs = [f"path+file://{folder}/{name}" for name in names]
        made = {
            "serialNumber": f"urn:uuid:{run}",
            "metadata": {"timestamp": f"2026-01-0{run}"},
            "components": [{"bom-ref": ref, "name": ref[-4:]} for ref in refs],
            "dependencies": [{"ref": ref, "dependsOn": refs} for ref in refs],
        }
        argv = [sys.executable, str(DEPLOY / "bill_of_materials.py"), folder]
        written = json.dumps(made)
        ran = subprocess.run(
            argv, input=written, stdout=subprocess.PIPE, text=True, check=True, timeout=60
        )
        return ran.stdout

    first = bill("/one/backcast", 1, names)
    assert first == bill("/srv/two", 2, names[::-1])
    assert first.count("path+file://./core") == 5
    assert first != bill("/srv/two", 2, names[:2])


def test_prometheus_finds_the_daemon_and_the_rules() -> None:
    scraped = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    [job] = scraped["scrape_configs"]
    host, port = job["static_configs"][0]["targets"][0].split(":")
    command = services()["daemon"]["command"]
    assert host in services()
    assert command[command.index("--metrics") + 1].endswith(f":{port}")
    mounted = services()["prometheus"]["volumes"]
    for name in ["prometheus.yml", *scraped["rule_files"]]:
        assert any(m.endswith(f"/etc/prometheus/{name}:ro") for m in mounted)


def test_a_daemon_actors_and_a_learner_run_as_the_compose_file_says(place: Path) -> None:
    _, *flags = services()["daemon"]["command"]
    flags[flags.index("--metrics") + 1] = "127.0.0.1:0"
    flags[flags.index("--budget") + 1] = "64MiB"
    roles = [services()[name]["entrypoint"][2] for name in ("actor", "actor", "learner")]
    env = os.environ | {"BACKCAST_DIR": str(place)}
    with serving(place, *flags) as started:
        health = started["metrics"].replace("/metrics", "/health")
        assert urllib.request.urlopen(health, timeout=60).read() == b"ok\n"
        children = []
        try:
            for role in roles:
                argv = [sys.executable, str(DEPLOY / "cartpole.py"), role]
                if role == "learner":
                    argv += ["--updates", "30"]
                children.append(subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True))
            assert [read_line(child).split()[0] for child in children] == roles
            assert children[-1].wait(60) == 0
            with bc.Params.attach("cartpole", dir=place) as params:
                assert params.version == 3
                assert params.latest()["q"].any()
        finally:
            for child in children:
                child.kill()
                child.communicate(timeout=60)
        bc.collect_garbage(dir=place)
        bc.Params.attach("cartpole", dir=place).unlink()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    # The programs of the user who installs it do not exist here.
    text = (DEPLOY / "backcast.service").read_text()
    text = text.replace("%h/.local/bin/backcast", sys.executable)

    def complaints(name: str, text: str) -> list[str]:
        unit = tmp_path / name
        unit.write_text(text)
        checked = subprocess.run(
            ["systemd-analyze", "verify", "--user", "--man=no", str(unit)],
            env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return [line for line in checked.stderr.splitlines() if name in line]

    assert complaints("backcast.service", text) == []
    assert complaints("broken.service", text.replace("WatchdogSec=30", "WatchdogSec=soon"))
