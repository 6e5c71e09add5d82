"""Replay buffers compared in one process: `python -m replay`, with `benches/python` on the path."""
