"""Arguments of `backcast ui`, checked before the page is built, and the socket that they name."""

from __future__ import annotations

import argparse
import errno
import ipaddress
import os
import secrets
import socket
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import quote

from backcast import list_objects
from backcast.errors import ArgumentError, InUseError, StorageError

PORT = 9465
"""Port of the page, next to that of the daemon's metrics."""
_LEAST_TOKEN = 16


@dataclass(frozen=True)
class Settings:
    """Checked arguments."""

    host: str
    port: int
    token: str | None
    """Secret that every request needs; None after `--no-token`."""
    dir: str | None
    interval_s: float
    shards: tuple[str, ...]
    hosts: tuple[str, ...]
    """Names that requests may give this machine, besides those of the loopback interface."""

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine reaches the page."""
        return ipaddress.ip_address(self.host).is_loopback

    def url(self, port: int) -> str:
        """Return what to open in a browser."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        query = f"?token={quote(self.token, safe='')}" if self.token else ""
        return f"http://{host}:{port}/{query}"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ArgumentError(f"{message}; `backcast ui --help` lists the options")


def parsed(argv: list[str]) -> Settings:
    """Return the settings. Prints the help and raises `SystemExit` where it is asked for.

    Raises
    ------
    ArgumentError
        If an option is unknown or has a wrong value.
    BackcastError
        If there is no such directory.
    """
    parser = _Parser(
        prog="backcast ui",
        description="Show rings, parameters and fleets on a page in the browser.",
        epilog="Ctrl-C ends it. Rings are only read, and while no page is open nothing is.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    listed: dict[str, Any] = {"action": "append", "default": []}
    listen = f"127.0.0.1:{PORT}"
    add("--listen", metavar="ADDRESS:PORT", default=listen, help="default: %(default)s")
    add("--token", help="secret of requests (default: BACKCAST_UI_TOKEN, else a random one)")
    add("--no-token", action="store_true", help="let every user of this machine read the page")
    add("--allow-host", metavar="NAME", **listed, help="name of a proxy before the page")
    add("--interval", metavar="SECONDS", default="1", help="between two readings, 0.05 to 3600")
    add("--dir", help="directory of the rings (default: BACKCAST_DIR, else /dev/shm)")
    add("--shards", metavar="NAME", **listed, help="shards on Ray to show")
    found = parser.parse_args(argv)
    host, port = _address(found.listen)
    if found.no_token and (found.token or found.allow_host):
        raise ArgumentError("--no-token goes with neither --token nor --allow-host; leave one out")
    token = None if found.no_token else _token(found.token)
    interval_s, hosts = _interval(found.interval), tuple(map(str.lower, found.allow_host))
    made = Settings(host, port, token, found.dir, interval_s, tuple(found.shards), hosts)
    if token is None and not made.is_loopback:
        raise ArgumentError(
            f"--no-token with --listen {found.listen} lets everyone read the page; leave it out, "
            f"or listen on {listen}"
        )
    list_objects(dir=found.dir)
    return made


def _token(given: str | None) -> str:
    token = given or os.environ.get("BACKCAST_UI_TOKEN") or secrets.token_urlsafe(24)
    if not (token.isascii() and token.isprintable()):
        raise ArgumentError(
            "the token has other characters than printable ASCII; give letters and digits, or "
            "leave it out and one is made"
        )
    if len(token) < _LEAST_TOKEN:
        raise ArgumentError(
            f"the token has {len(token)} characters; give at least {_LEAST_TOKEN}, or leave it out "
            "and one is made"
        )
    return token


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    host = "127.0.0.1" if host == "localhost" else host
    try:
        ipaddress.ip_address(host)
        if not (port.isascii() and port.isdigit() and int(port) < 65_536):
            raise ValueError(port)
    except ValueError as error:
        raise ArgumentError(
            f"--listen is {text!r}; give ADDRESS:PORT with an IP address and a port from 0 to "
            f"65535, such as 127.0.0.1:{PORT}, [::1]:{PORT} or 0.0.0.0:{PORT}"
        ) from error
    return host, int(port)


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0.05 <= seconds <= 3600:
        raise ArgumentError(f"--interval is {text!r}; give 0.05 to 3600 seconds, such as 0.5")
    return seconds


def socket_of(settings: Settings) -> socket.socket:
    """Return the socket that the page listens on.

    Raises
    ------
    InUseError
        If the port is taken.
    StorageError
        If the system refuses the address.
    """
    host, port = settings.host, settings.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, dualstack_ipv6=host == "::")
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        said = f"cannot listen on {host}, port {port}: {os.strerror(error.errno or 0)}"
        raise (InUseError if is_taken else StorageError)(
            f"{said}; give an address of this machine and another port above 1023, or port 0 for "
            "a free one, such as --listen 127.0.0.1:0"
        ) from error
