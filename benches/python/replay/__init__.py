"""Replay buffers against each other: `python -m replay`, with `benches/python` on the path."""
