"""A plain, slow model of the simulated market, written from docs/concepts/market-rules.md.

It shares no code with the simulator. A test compares the two tick by tick.
"""
