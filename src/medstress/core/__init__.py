"""What everything imports: items, calls, queries, outcomes, errors, hashes. Opens no file."""
