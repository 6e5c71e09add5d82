"""Check that every link, picture and anchor within the built site leads somewhere.

    python links.py SITE

Sphinx checks what it understands; this checks what a reader's browser gets: raw HTML and the pages
that other tools made are in it. Links out of the site are `make docs-links`.
"""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Links of a page, and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect targets and anchors."""
        for name, value in attrs:
            if value and name in {"href", "src"} and tag != "base":
                self.links.append(value)
            elif value and name in {"id", "name"}:
                self.anchors.add(value)


@cache
def read(path: Path) -> Page:
    """Parse a page once."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def dead_links(site: Path) -> list[str]:
    """Every link of the pages that leads nowhere, with its page."""
    dead = []
    # cargo checks its own pages with warnings; ours are checked for what they link to in them.
    pages = [page for page in site.rglob("*.html") if site / "rust" not in page.parents]
    for page in pages:
        for link in read(page).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                dead.append(f"{page.relative_to(site)}: {link}: no such file")
            elif parts.fragment and target.suffix == ".html":
                anchors = read(target).anchors | {"", "top"}
                if unquote(parts.fragment) not in anchors:
                    dead.append(f"{page.relative_to(site)}: {link}: no such anchor")
    return dead


if __name__ == "__main__":
    found = dead_links(Path(sys.argv[1]).resolve())
    print(*found, sep="\n", file=sys.stderr)
    sys.exit(f"{len(found)} dead links" if found else 0)
