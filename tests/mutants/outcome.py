"""The outcome of a mutant: what the tests said of it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

# "invalid": the compiler refuses it.
Verdict = Literal["noticed", "missed", "hung", "invalid"]


@dataclass(frozen=True)
class Outcome:
    """A mutant, and what the tests said of it."""

    # Crate, or part of the Python package.
    part: str
    file: str
    line: int
    # Change in the words of the tool.
    mutation: str
    verdict: Verdict
    # Test that failed first.
    noticed_by: str | None = None

    def line_of_json(self) -> str:
        """Return one line for ``results.jsonl``."""
        return json.dumps(asdict(self))

    def words(self) -> str:
        """Return where the mutant is and what it changed."""
        return f"{self.file}:{self.line}: {self.mutation}"
