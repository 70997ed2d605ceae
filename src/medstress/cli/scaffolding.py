"""`medstress new`: write the package of a plug-in."""

from __future__ import annotations

import argparse
from pathlib import Path

from medstress.cli.flags import Parser


def add_new(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress new`."""
    new = commands.add_parser(
        "new",
        help="write a package with an attack, a back end or a data set of your own",
        description="Write a small package that installs and passes its tests as it stands: the "
        "module, its tests with the check of medstress, pyproject.toml with the entry point, and "
        "an experiment that uses it. Then change it into your own. Nothing is overwritten.",
    )
    new.add_argument("kind", metavar="{attack,backend,dataset}", help="what it adds")
    new.add_argument("name", metavar="NAME", help="what experiment files call it: look_alike")
    new.add_argument("--to", metavar="DIR", help="its folder (default: medstress-NAME)")


def new_cli(args: argparse.Namespace) -> int:
    """Run `medstress new`."""
    from medstress.scaffolding.commands import commands_for
    from medstress.scaffolding.names import names_for
    from medstress.scaffolding.package import write_package

    names = names_for(args.kind, args.name)
    folder = Path(args.to or names.package)
    written = write_package(names, folder)
    install, test = commands_for(folder)
    print(f"{folder}: {', '.join(written)}")
    print(f"install: {install}\ntest:    {test}\nrun:     medstress run {folder}/experiment.toml")
    return 0
