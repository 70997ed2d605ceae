"""Statistics: numbers in, estimates out. Nothing here knows a trial."""
