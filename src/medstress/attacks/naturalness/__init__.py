"""Whether an option still reads as its author might have written it, once a name is put in."""

from medstress.attacks.naturalness.filter import Natural, as_written, parse_naturalness
from medstress.attacks.naturalness.oddity import FORM, GRAMMAR, REASONS, oddities

__all__ = ["FORM", "GRAMMAR", "REASONS", "Natural", "as_written", "oddities", "parse_naturalness"]
