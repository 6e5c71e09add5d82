"""Sphinx directives that write parts of the reference from the installed package.

`cli-help` shows the help text of every command of `backcast`. `every-error` documents the
exceptions and warnings of the package. A check at the end of the build requires that every public
name of the package is in the reference.
"""

import re
import subprocess
import sys
from pathlib import Path

import backcast
import backcast.envs
import backcast.errors
import backcast.evaluate
import backcast.finrl
import backcast.fleet
import backcast.indicators
import backcast.plot
import backcast.returns
import backcast.sim
import backcast.types
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

#: Modules whose names must be documented. The adapters are not here: each needs the library that
#: it adapts.
PUBLIC = (
    backcast,
    backcast.envs,
    backcast.errors,
    backcast.evaluate,
    backcast.finrl,
    backcast.fleet,
    backcast.indicators,
    backcast.plot,
    backcast.returns,
    backcast.sim,
    backcast.types,
)
LOGGER = logging.getLogger(__name__)
COMMAND = re.compile(r"^  (?P<name>[a-z][a-z-]*) ", re.M)


def help_of(*command: str) -> str:
    """Run `backcast COMMAND --help` as a user would; a failure ends the build."""
    program = Path(sys.executable).parent / "backcast"
    said = subprocess.run(
        [program, *command, "--help"],
        env={"COLUMNS": "100", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return said.stdout.rstrip()


def commands_in(text: str) -> list[str]:
    """Return the names under the heading Commands of a help text, without `help` itself."""
    _, found, rest = text.partition("Commands:\n")
    listed = rest.split("\n\n", 1)[0]
    return [name for name in COMMAND.findall(listed) if name != "help"] if found else []


class CliHelp(SphinxDirective):
    """Help text of `backcast`, then a section for each command, nested for its subcommands."""

    def run(self) -> list[nodes.Node]:
        """Render all commands and subcommands."""
        return [self.block(()), *(self.section((name,)) for name in commands_in(help_of()))]

    def block(self, command: tuple[str, ...]) -> nodes.Node:
        """Return a help text as it is printed."""
        text = help_of(*command)
        return nodes.literal_block(text, text, language="text")

    def section(self, command: tuple[str, ...]) -> nodes.Node:
        """Return the section of a command, with the sections of its subcommands."""
        title = " ".join(("backcast", *command))
        section = nodes.section(ids=["-".join(command)], names=[title])
        section += nodes.title(title, title)
        section += self.block(command)
        section += [self.section((*command, name)) for name in commands_in(help_of(*command))]
        return section


class EveryError(SphinxDirective):
    """Each error and warning except `BackcastError`, in alphabetical order.

    A name that the package itself exports is documented there, others in `backcast.errors`.
    """

    def run(self) -> list[nodes.Node]:
        """Render one `autoexception` directive for each name."""
        names = [name for name in backcast.errors.__all__ if name != "BackcastError"]
        modules = ["backcast" if name in backcast.__all__ else "backcast.errors" for name in names]
        found = zip(modules, names, strict=True)
        source = "\n\n".join(f".. autoexception:: {module}.{name}" for module, name in found)
        return self.parse_text_to_nodes(source)


def require_every_name(_app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of each public name that is not in the reference; a warning fails the build."""
    documented = {name for name, *_ in env.domains.python_domain.get_objects()}
    for module in PUBLIC:
        for name in module.__all__:
            full = f"{module.__name__}.{name}"
            # An object that the package exports too may be documented under either name.
            shared = getattr(backcast, name, None) is getattr(module, name)
            names = {full, f"backcast.{name}"} if shared else {full}
            if not name.startswith("__") and not names & documented:
                LOGGER.warning("%s is public, but not in docs/reference/python.rst", full)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives and the check."""
    app.add_directive("cli-help", CliHelp)
    app.add_directive("every-error", EveryError)
    app.connect("env-check-consistency", require_every_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
