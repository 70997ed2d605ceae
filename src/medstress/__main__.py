"""The `medstress` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    from medstress.cli.app import medstress_cli

    sys.exit(medstress_cli(sys.argv[1:]))


if __name__ == "__main__":
    main()
