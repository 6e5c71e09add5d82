"""Refuses requests that are not of the page's user. It needs no framework."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from backcast.ui._settings import Settings

Scope = dict[str, Any]
Call = Callable[..., Awaitable[Any]]
Answer = tuple[int, str, dict[str, str]]


class Guard:
    """Lets a request through that names this machine on loopback, and carries the token if any.

    A site on the internet whose name leads to 127.0.0.1 is refused by its name, and a page of
    another site by its origin.
    """

    def __init__(self, app: Call, settings: Settings, port: int) -> None:
        self._app, self._settings = app, settings
        digest = hashlib.sha256((settings.token or "").encode()).hexdigest()
        self._cookie = f"backcast_ui_{port}={digest}"

    async def __call__(self, scope: Scope, receive: Call, send: Call) -> None:
        """Answer a request, or hand it on."""
        answer = self._answer(scope) if scope["type"] in ("http", "websocket") else None
        if answer is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            status, text, more = answer
            named = {"content-type": "text/plain; charset=utf-8"} | more
            headers = [(name.encode(), value.encode("latin-1")) for name, value in named.items()]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": text.encode()})

    def _answer(self, scope: Scope) -> Answer | None:
        """Return the answer to a request that goes no further."""
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        host, token = headers.get("host", ""), self._settings.token
        origin = headers.get("origin", f"http://{host}")
        try:
            name, site = urlsplit(f"//{host}").hostname or "", urlsplit(origin).netloc
            is_named = name in ("localhost", *self._settings.hosts)
            is_here = is_named or not self._settings.is_loopback or ip_address(name).is_loopback
        except ValueError:
            is_here = False
        if not is_here:
            text = f"host {host!r} is not this machine; open the address that `backcast ui` printed"
            return 403, text, {}
        if site != host:
            return 403, f"the request comes from a page of {origin!r}", {}
        cookies = headers.get("cookie", "").split(";")
        if token is None or any(_are_equal(one.strip(), self._cookie) for one in cookies):
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not _are_equal(given, token):
            return 401, "open the address with ?token= that `backcast ui` printed", {}
        # The token leaves the address bar, and with it the history of the browser.
        there = "/" + quote(scope["path"].lstrip("/"))
        cookie = f"{self._cookie}; HttpOnly; Path=/; SameSite=lax"
        return 303, "", {"location": there, "set-cookie": cookie}


def _are_equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
