"""Reads the crates of the workspace, their modules, and their dependencies from the sources."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

Graph = dict[str, set[str]]

# A line comment, a literal, or the start of a block comment or raw string; code finds their ends.
_OTHER = re.compile(
    r"""//[^\n]*|/\*|\b(?:br|cr|r)(?P<raw>#*)"|"(?:\\.|[^"\\])*"|'(?:\\[^']+|[^'\\])'""", re.DOTALL
)
_NESTED = re.compile(r"/\*|\*/")
_ATTRIBUTE = re.compile(r"#\[cfg\((?:test|all\(test)\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*")
_ITEM = re.compile(r"(?:pub(?:\([^)]*\))?\s+)?(?:mod|fn|impl|use|struct|const|static)\b[^;{]*")
_PATH = re.compile(r"\b(crate|super|self)\s*((?:::\s*\w+\s*)*)(::\s*\{)?")
_EXPORT = re.compile(r"\bpub(?:\([^)]*\))?\s+use\s+([^;]+);")


def workspace(*, optional: bool = True) -> Graph:
    """Return the folders of the workspace's crates, each with those that it depends on.

    Dependencies of tests and benchmarks do not count, and optional ones only if asked for.
    """
    command = ["cargo", "metadata", "--no-deps", "--locked", "--offline", "--format-version", "1"]
    output = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60
    ).stdout
    packages = json.loads(output)["packages"]
    folder = {
        package["name"]: Path(package["manifest_path"]).parent.relative_to(ROOT).as_posix()
        for package in packages
    }
    return {
        folder[package["name"]]: {
            folder[dependency["name"]]
            for dependency in package["dependencies"]
            if dependency["kind"] != "dev"
            and dependency["name"] in folder
            and (optional or not dependency["optional"])
        }
        for package in packages
    }


def code(text: str) -> str:
    """Return Rust source without comments, literals and items for tests."""
    return _without_tests(_without_literals(text))


def _without_literals(text: str) -> str:
    kept: list[str] = []
    at = 0
    while found := _OTHER.search(text, at):
        kept.append(text[at : found.start()])
        at = found.end()
        if found[0] == "/*":
            depth = 1
            while depth and (mark := _NESTED.search(text, at)):
                depth += 1 if mark[0] == "/*" else -1
                at = mark.end()
        elif found["raw"] is not None:
            end = text.find('"' + found["raw"], at)
            at = len(text) if end < 0 else end + 1 + len(found["raw"])
    kept.append(text[at:])
    return "".join(kept)


def _without_tests(text: str) -> str:
    while found := _ATTRIBUTE.search(text):
        item = _ITEM.match(text, found.end())
        end = item.end() if item else found.end()
        if item and end < len(text) and text[end] == "{":
            depth = 0
            while end < len(text):
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
                if depth == 0:
                    break
        elif item:
            end += 1
        text = text[: found.start()] + text[end:]
    return text


def leaves(tree: str) -> list[list[str]]:
    """Return the paths that a `use` tree names, each as a list of segments."""
    tree = re.sub(r"\s+as\s+\w+", "", tree).strip()
    head, brace, rest = tree.partition("{")
    prefix = [part.strip() for part in head.split("::") if part.strip()]
    if not brace:
        return [prefix]
    found: list[list[str]] = []
    depth, part = 0, ""
    for character in rest[: rest.rindex("}")] + ",":
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            if part.strip():
                found += [prefix + path for path in leaves(part)]
            part = ""
        else:
            part += character
    return found


def modules(crate: Path, *below: str) -> Graph:
    """Return the top-level modules of a crate, each with those whose items it names.

    A file names a module by a path after `crate::` or `super::`. A name that `lib.rs` exports
    stands for the module that it comes from. With `below`, the result has the modules of that
    folder of the crate. Tests may name every module, and are left out.
    """
    source = crate.joinpath("src", *below)
    files = [path for path in source.rglob("*.rs") if not _is_apart(path.relative_to(source))]
    texts = {path: code(path.read_text()) for path in files}
    names = {path.relative_to(source).parts[0].removesuffix(".rs") for path in files}
    top = names - {"lib", "main", "mod"}
    exports: dict[str, str] = {}
    for tree in _EXPORT.findall(texts.get(source / "lib.rs", "")):
        for segments in leaves(tree):
            from_root = segments[1:] if segments[0] in ("self", "crate") else segments
            if from_root[0] in top:
                exports[from_root[-1]] = from_root[0]
    graph: Graph = {name: set() for name in top}
    for path, text in texts.items():
        own = [*below, *path.relative_to(source).with_suffix("").parts]
        if own[-1] == "mod":
            own.pop()
        depth = len(below)
        if len(own) == depth or own[depth] not in top:
            continue
        for named in _named(text, own):
            if tuple(named[:depth]) != below or len(named) == depth:
                continue
            target = named[depth] if named[depth] in top else exports.get(named[depth])
            if target and target != own[depth]:
                graph[own[depth]].add(target)
    return graph


def _is_apart(path: Path) -> bool:
    names = path.with_suffix("").parts
    return "bin" in names or any(name == "tests" or name.endswith("_tests") for name in names)


def _named(text: str, own: list[str]) -> list[list[str]]:
    """Return the paths that a file names, from the crate's root."""
    found: list[list[str]] = []
    for match in _PATH.finditer(text):
        root, segments = match[1], re.findall(r"\w+", match[2])
        if root == "crate":
            base: list[str] = []
        elif root == "super":
            base = own[:-1]
            while segments and segments[0] == "super":
                base, segments = base[:-1], segments[1:]
        else:
            continue
        paths = [segments]
        if match[3]:
            end, depth = match.end(), 1
            while depth and end < len(text):
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
            paths = [segments + path for path in leaves("{" + text[match.end() : end])]
        found += [base + path for path in paths if base + path]
    return found


def circles(graph: Graph) -> list[set[str]]:
    """Return the strongly connected components of more than one node."""
    reached: Graph = {}
    for node in graph:
        seen: set[str] = set()
        todo = list(graph[node])
        while todo:
            if (following := todo.pop()) not in seen:
                seen.add(following)
                todo += graph.get(following, ())
        reached[node] = seen
    found: dict[frozenset[str], None] = {}
    for node, after in reached.items():
        circle = frozenset(other for other in after if node in reached.get(other, ()))
        if len(circle) > 1:
            found[circle] = None
    return [set(circle) for circle in found]


def files_with_unsafe(crate: Path) -> set[str]:
    """Return the files of a crate's source with the word `unsafe`, outside comments and tests."""
    source = crate / "src"
    return {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.rs")
        if re.search(r"\bunsafe\b", code(path.read_text()))
    }
