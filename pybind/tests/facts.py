"""Checks that an error message states names, values and limits, whatever its wording."""

from __future__ import annotations

import re
from collections.abc import Iterable


def missing(message: object, facts: Iterable[str]) -> list[str]:
    """Return the facts that a message does not state: `10` does not state `1`."""
    text = str(message)
    return [fact for fact in facts if not re.search(_whole(fact), text)]


def _whole(fact: str) -> str:
    """Return a pattern for a fact that is no part of a longer name or number."""
    before = r"(?<!\w)" if re.match(r"\w", fact) else ""
    after = r"(?!\w)" if re.search(r"\w$", fact) else ""
    return before + re.escape(fact) + after
