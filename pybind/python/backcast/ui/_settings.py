"""Settings of the page, and the socket that they name."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from backcast.errors import StorageError


@dataclass(frozen=True)
class Settings:
    """Arguments of `backcast ui`."""

    host: str
    port: int
    token: str | None = None
    """Secret that every request needs; None after `--no-token`."""
    hosts: Sequence[str] = ()
    """Names that requests may give this machine, besides those of the loopback interface."""
    interval_s: float = 1.0
    shards: Sequence[str] = ()
    dir: str | None = None

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine reaches the page."""
        return ipaddress.ip_address(self.host).is_loopback

    def url(self, port: int) -> str:
        """Return what to open in a browser."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        query = f"?token={quote(self.token, safe='')}" if self.token else ""
        return f"http://{host}:{port}/{query}"

    def listen(self) -> socket.socket:
        """Return the socket that the page listens on.

        Raises
        ------
        StorageError
            If the port is taken, or the system refuses the address.
        """
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        at = self.host, self.port
        try:
            return socket.create_server(at, family=family, dualstack_ipv6=self.host == "::")
        except OSError as error:
            raise StorageError(
                f"cannot listen on {self.host}, port {self.port}: {os.strerror(error.errno or 0)}; "
                "give an address of this machine and another port above 1023, or port 0 for a "
                "free one, such as --listen 127.0.0.1:0"
            ) from error
