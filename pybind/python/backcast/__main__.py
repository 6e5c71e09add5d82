"""`python -m backcast`: the command line without relying on PATH."""

from backcast.cli import main

raise SystemExit(main())
