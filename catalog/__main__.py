"""`python -m streamtime`: the command line."""

import sys

from streamtime.shell.cli import main

sys.exit(main())
