"""Numbers in, estimates out: intervals, resampling, tests. Knows no trial."""
