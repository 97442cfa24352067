"""`python -m scripts` is the program `evalguest`."""

import sys

from scripts.cli import main

sys.exit(main(sys.argv[1:]))
