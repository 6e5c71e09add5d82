"""Trading transitions against NumPy and memcpy: `python -m transitions`."""
