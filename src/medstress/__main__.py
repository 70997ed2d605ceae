"""The `medstress` command."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    gc.set_threshold(200_000)  # a tenth of the time of commands, and 3 MB
    try:
        from medstress.cli.app import medstress_cli
        from medstress.cli.process import leave

        leave(medstress_cli(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
    except (ImportError, SyntaxError, AttributeError) as error:
        # Before the command line could take over: something that every command needs.
        from medstress.core.extras import half_installed

        if not (fault := half_installed(error)):
            raise
        print(f"medstress: {fault}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
