"""Settings of the documentation site; `make docs` builds it with warnings as errors."""

import sys
from pathlib import Path

import backcast
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))

project = "Backcast"
author = "the Backcast authors"
copyright = author
version = release = backcast.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "directives"]
exclude_patterns = ["README.md"]
# index.rst includes README.md, the front page on a code forge, and adds the table of contents.
root_doc = "index"

html_theme = "furo"
html_title = f"Backcast {release}"
templates_path = ["_templates"]
# The theme's own parts, and the list of published versions below the search.
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/versions.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_copy_source = False
html_show_sourcelink = False

# Gives headings down to level 3 the anchors that code forges give them: `page.md#a-heading`.
myst_heading_anchors = 3
myst_links_external_new_tab = False

# The docstrings state the types, in words, so signatures show none.
autodoc_member_order = "groupwise"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
nitpicky = True
nitpick_ignore = [
    # Bases of the exceptions, named in the reference of Python itself.
    *(
        ("py:class", name)
        for name in [
            "ValueError",
            "TypeError",
            "OSError",
            "RuntimeError",
            "TimeoutError",
            "FileNotFoundError",
            "FileExistsError",
            "Exception",
            "UserWarning",
            "object",
        ]
    ),
    # Bases of the environments, named in the reference of Gymnasium.
    ("py:class", "gymnasium.core.Env"),
    ("py:class", "gymnasium.vector.vector_env.VectorEnv"),
]

# Types of attributes in words: choices, "mapping of str to int", and "optional" or "default 100".
nitpick_ignore_regex = [
    ("py:class", r"\{?\".*\"\}?|optional|default .*"),
    ("py:class", r"callable|mapping|str to( \w+)?|sequence|array_like|shape"),
]

linkcheck_anchors = False
linkcheck_timeout = 20


def keep_first_line_whole(
    _app: Sphinx, what: str, _name: str, _obj: object, _options: object, lines: list[str]
) -> None:
    """Keep napoleon from reading text before a colon in an attribute's first line as a type."""
    if what in {"attribute", "property", "data"}:
        lines[:0] = ["..", ""]  # an empty comment is a first line without a colon


def setup(app: Sphinx) -> None:
    """Register `keep_first_line_whole` to run before napoleon does."""
    app.connect("autodoc-process-docstring", keep_first_line_whole, priority=400)
