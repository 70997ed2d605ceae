"""The `medstress` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        from medstress.cli.app import medstress_cli
        from medstress.cli.stopping import leave

        leave(medstress_cli(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
