"""Add a built site to a folder of published versions.

    python docs/versions.py out/docs SITE

SITE gets a folder named after the version of the installed package. ``versions.json`` lists the
folders, the newest first, for the list in the sidebar. ``index.html`` leads to the newest version.
A folder of the same version is replaced.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

VERSION = re.compile(r"\d+(?:\.\d+)+")
PAGE = """<!doctype html>
<meta charset="utf-8">
<title>Backcast</title>
<meta http-equiv="refresh" content="0; url={newest}/">
<a href="{newest}/">Backcast {newest}</a>
"""


def publish(built: Path, site: Path, version: str) -> list[str]:
    """Copy a built site to its version's folder; return the versions, the newest first."""
    if not VERSION.fullmatch(version):
        raise ValueError(f"the version is {version!r}; give numbers with dots, such as 0.1.0")
    if not (built / "index.html").is_file():
        raise FileNotFoundError(f"{built} has no index.html; run `make docs` first")
    shutil.rmtree(site / version, ignore_errors=True)
    shutil.copytree(built, site / version)
    found = [path.name for path in site.iterdir() if VERSION.fullmatch(path.name)]
    found.sort(key=lambda name: [int(number) for number in name.split(".")], reverse=True)
    (site / "versions.json").write_text(json.dumps(found) + "\n", encoding="utf-8")
    (site / "index.html").write_text(PAGE.format(newest=found[0]), encoding="utf-8")
    return found


if __name__ == "__main__":
    import backcast

    print(*publish(Path(sys.argv[1]), Path(sys.argv[2]), backcast.__version__))
