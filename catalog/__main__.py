"""`python -m streamtime`: the command line."""

import sys

from streamtime.cli import main

sys.exit(main())
