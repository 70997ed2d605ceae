"""A first experiment from a few values: data, victim, entities, attack, budget.

`medstress run --data FILE --model NAME` runs it, and prints it with --dry-run: commented TOML,
which is read and checked like any experiment file.
"""
