"""Portfolio environments against NumPy and memcpy: `python -m portfolios`."""
