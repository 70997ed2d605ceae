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
    except ModuleNotFoundError as error:
        # Before the command line could take over: something that every command needs.
        if (error.name or "medstress").partition(".")[0] == "medstress":
            raise
        told = f"medstress is installed only in part ({error}); complete it with"
        print(f"medstress: {told}: pip install medstress", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
