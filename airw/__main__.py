"""`python -m airw`: the command line."""

import sys

from airw.cli import main

sys.exit(main())
