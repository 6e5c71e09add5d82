"""Backcast against other replay buffers: `python -m peers`, with `benches/python` on the path.

Each contender runs in an interpreter of its own, because Reverb needs a TensorFlow and a NumPy that
the others do not load with.
"""
