"""`python -m afterturn` is `afterturn`."""

from __future__ import annotations

from afterturn.cli import main

if __name__ == "__main__":
    main()
