"""A module that imports something which does not exist."""

import no_such_library_anywhere  # type: ignore[import-not-found]  # noqa: F401


def act(context: object) -> None:
    raise AssertionError("the import fails")
