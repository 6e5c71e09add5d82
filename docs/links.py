"""Check that every link, picture and anchor within the built site leads somewhere.

    python links.py SITE

Sphinx checks only the links of its own sources. This script also checks raw HTML, and links to
pages of other tools. `make docs-links` checks links out of the site.
"""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Parser that collects the links and anchors of a page."""

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
    """Return every dead link of the pages, with its page."""
    dead = []
    # `cargo doc -D warnings` checks the links in its own pages. Links to them are checked here.
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
