"""Write boxes, words and arrows as an SVG that is readable on light and dark pages."""

from __future__ import annotations

from html import escape
from pathlib import Path

#: CSS class to its fill on light and on dark pages. Each drawing has its own background (`card`),
#: so that it is readable on pages that do not follow the system's colour scheme.
FILLS = {
    "card": ("#ffffff", "#1b1f24"),
    "episode0": ("#cfe3ff", "#1f4b7d"),
    "episode1": ("#ffe2b8", "#6b4b12"),
    "episode2": ("#d3f2d9", "#23572f"),
    "marked": ("#f7c6d0", "#7a2439"),
    "empty": ("#f3f4f6", "#2a2f36"),
}
INK, FAINT = ("#1f2328", "#e6edf3"), ("#6a737d", "#9aa4ae")


def _style() -> str:
    def rules(shade: int) -> str:
        fills = "".join(f".{name}{{fill:{both[shade]}}}" for name, both in FILLS.items())
        return (
            f"{fills}text{{fill:{INK[shade]}}}.faint{{fill:{FAINT[shade]}}}"
            f"rect,path{{stroke:{FAINT[shade]}}}.head{{fill:{FAINT[shade]}}}"
        )

    return (
        "text{font:13px ui-monospace,Menlo,Consolas,monospace}.title{font-weight:bold}"
        ".middle{text-anchor:middle}path{fill:none}.dashed{stroke-dasharray:4 3}"
        f"{rules(0)}@media(prefers-color-scheme:dark){{{rules(1)}}}"
    )


class Drawing:
    """SVG elements of a drawing; later ones cover earlier ones."""

    def __init__(self, width: int, height: int, alt: str) -> None:
        self.size = (width, height)
        self.alt = alt
        self.parts: list[str] = []

    def box(
        self, x: float, y: float, width: float, height: float, kind: str, label: str = ""
    ) -> None:
        """Draw a rectangle with a fill of `FILLS` and a label; the kind `empty` is dashed."""
        dashed = " dashed" if kind == "empty" else ""
        self.parts.append(
            f'<rect class="{kind}{dashed}" x="{x:g}" y="{y:g}" width="{width:g}" '
            f'height="{height:g}" rx="3"/>'
        )
        if label:
            self.text(x + width / 2, y + height / 2 + 4.5, label, "middle")

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        """Write words that begin at x, or are centred on it if the kind is `middle`."""
        self.parts.append(f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>')

    def bracket(self, x: float, width: float, y: float, words: str) -> None:
        """Draw a bracket of a width at height y, open to the top, with words below it."""
        self.parts.append(f'<path d="M{x:g} {y:g}v5h{width:g}v-5"/>')
        self.text(x + width / 2, y + 20, words, "middle")

    def pointer(self, x: float, y: float, words: str) -> None:
        """Draw an arrow that points down at (x, y), with words above it."""
        self.text(x, y - 18, words, "middle")
        self.parts.append(f'<path d="M{x:g} {y - 14:g}v10"/>')
        self.parts.append(f'<path class="head" d="M{x - 4:g} {y - 7:g}h8l-4 7z"/>')

    def save(self, path: Path) -> None:
        """Write the drawing to an SVG file."""
        width, height = self.size
        body = "\n".join(self.parts)
        path.write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">\n<title>{escape(self.alt)}</title>\n'
            f"<style>{_style()}</style>\n"
            f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" '
            f'rx="6"/>\n{body}\n</svg>\n',
            encoding="utf-8",
        )
