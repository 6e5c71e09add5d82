"""Write a tutorial as a notebook: its text and code, without what the code prints.

    python docs/tutorials/notebook.py docs/tutorials/four-actors.md examples/notebook.ipynb

A test compares the committed notebook with its page, whose code other tests run.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

CODE = re.compile(r"^```python\n(.*?)^```$(?:\n```text\n.*?^```$)?", re.M | re.S)


def cells(page: str) -> list[dict[str, object]]:
    """Return the cells of a page. Its links lead to the pages as seen from another folder."""
    found: list[dict[str, object]] = []
    # The pattern has one group, so text and code alternate.
    for at, part in enumerate(CODE.split(page)):
        source = part.strip().replace("](../", "](../docs/").splitlines(keepends=True)
        if at % 2:
            code = {"execution_count": None, "outputs": []}
            found.append({"cell_type": "code", "metadata": {}, "source": source} | code)
        elif source:
            found.append({"cell_type": "markdown", "metadata": {}, "source": source})
    return [{"id": f"cell-{at}"} | cell for at, cell in enumerate(found)]


def notebook(page: str) -> str:
    """Return the notebook of a page."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    made = {"cells": cells(page), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(notebook(Path(sys.argv[1]).read_text(encoding="utf-8")))
