"""`python -m oatkit` is the command `oatkit`."""

from __future__ import annotations

import sys

from oatkit.cli import main

if __name__ == "__main__":
    sys.exit(main())
