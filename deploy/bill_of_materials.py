"""Take what differs from run to run out of a CycloneDX bill of materials: stdin to stdout.

    python deploy/bill_of_materials.py FOLDER < bill.json

`cargo cyclonedx` writes a random serial number, the time, and the folder of the source, FOLDER. It
promises no order of components and dependencies, so they are sorted.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def reproducible(bill: dict[str, Any], folder: str) -> str:
    """Return the text of a bill, sorted, without serial number, time and the folder's name."""
    bill.pop("serialNumber", None)
    bill.get("metadata", {}).pop("timestamp", None)
    bill.get("components", []).sort(key=lambda component: str(component["bom-ref"]))
    for dependency in bill.get("dependencies", []):
        dependency.get("dependsOn", []).sort()
    bill.get("dependencies", []).sort(key=lambda dependency: str(dependency["ref"]))
    return json.dumps(bill, indent=1).replace(folder, ".") + "\n"


if __name__ == "__main__":
    sys.stdout.write(reproducible(json.load(sys.stdin), sys.argv[1]))
