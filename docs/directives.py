"""Parts of the reference that are read from the program itself when the site is built.

`cli-help`: what every command of `backcast` says about itself. `every-error`: the exceptions and
warnings of the package. After both, every public name of the package must have its place in the
reference.
"""

import re
import subprocess
import sys
from pathlib import Path

import backcast
import backcast.envs
import backcast.errors
import backcast.finrl
import backcast.fleet
import backcast.plot
import backcast.returns
import backcast.sim
import backcast.types
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

#: What users import names from. The adapters are missing: each needs the library that it serves.
PUBLIC = (
    backcast,
    backcast.envs,
    backcast.errors,
    backcast.finrl,
    backcast.fleet,
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
    """Names under the heading Commands of a help text, without `help` itself."""
    _, found, rest = text.partition("Commands:\n")
    listed = rest.split("\n\n", 1)[0]
    return [name for name in COMMAND.findall(listed) if name != "help"] if found else []


class CliHelp(SphinxDirective):
    """A section with its help text for each command, and below it for each of its own."""

    def run(self) -> list[nodes.Node]:
        """Render the whole tree of commands."""
        return [self.block(()), *(self.section((name,)) for name in commands_in(help_of()))]

    def block(self, command: tuple[str, ...]) -> nodes.Node:
        """One help text as it is printed."""
        text = help_of(*command)
        return nodes.literal_block(text, text, language="text")

    def section(self, command: tuple[str, ...]) -> nodes.Node:
        """One command with those below it."""
        title = " ".join(("backcast", *command))
        section = nodes.section(ids=["-".join(command)], names=[title])
        section += nodes.title(title, title)
        section += self.block(command)
        section += [self.section((*command, name)) for name in commands_in(help_of(*command))]
        return section


class EveryError(SphinxDirective):
    """Each error and warning, in the order of the alphabet, by its shortest name."""

    def run(self) -> list[nodes.Node]:
        """Leave the work to autodoc."""
        names = [name for name in backcast.errors.__all__ if name != "BackcastError"]
        modules = ["backcast" if name in backcast.__all__ else "backcast.errors" for name in names]
        found = zip(modules, names, strict=True)
        source = "\n\n".join(f".. autoexception:: {module}.{name}" for module, name in found)
        return self.parse_text_to_nodes(source)


def require_every_name(_app: Sphinx, env: BuildEnvironment) -> None:
    """Warn, which ends the build, of public names without a place in the reference."""
    documented = {name for name, *_ in env.domains.python_domain.get_objects()}
    for module in PUBLIC:
        for name in module.__all__:
            full = f"{module.__name__}.{name}"
            # A name of a subpackage that the package has too is documented once.
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
