"""A first experiment from a few values: data, victim, entities, attack, budget.

`medstress run --data FILE --model NAME` runs it, `medstress init` writes it to a file. Both are the
same commented TOML, which is read and checked like any experiment file.
"""
