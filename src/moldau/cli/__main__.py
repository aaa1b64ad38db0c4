"""``python -m moldau.cli`` is ``moldau`` without relying on the PATH."""

import sys

from moldau.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
