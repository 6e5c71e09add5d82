"""Serves the page until a signal arrives."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI
from nicegui import ui

from backcast.ui._feed import Feed
from backcast.ui._guard import Guard
from backcast.ui._pages import build
from backcast.ui._settings import Settings


class _Server(uvicorn.Server):
    """Keeps the signal that ended it until its event loop has ended."""

    url = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say where the page is once it answers and takes signals."""
        await super().startup(sockets)
        print(f"open {self.url} (Ctrl-C ends it)", flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the server. A second signal does not cut the end short, which lasts a second."""
        self._captured_signals.append(sig)
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals that end the server."""
        handled = uvicorn.server.HANDLED_SIGNALS
        before = {number: signal.signal(number, self.handle_exit) for number in handled}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(settings: Settings, listening: socket.socket) -> None:
    """Serve the page on a socket until a signal arrives, which is raised again at the end."""
    port = listening.getsockname()[1]
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    build(Feed(settings))
    ui.run_with(
        app,
        title="Backcast",
        dark=None,
        language="en-US",
        favicon="📼",
        tailwind=False,
        binding_refresh_interval=None,
        show_welcome_message=False,
    )
    config = uvicorn.Config(Guard(app, settings, port), log_level="warning")
    config.timeout_graceful_shutdown = 1
    # Within the machine, compressing takes longer than sending.
    config.ws_per_message_deflate = not settings.is_loopback
    server = _Server(config)
    server.url = settings.url(port)
    server.run(sockets=[listening])
    for number in server._captured_signals[-1:]:
        signal.raise_signal(number)
