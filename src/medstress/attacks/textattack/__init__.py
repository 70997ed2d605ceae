"""Attacks of TextAttack (Morris et al. 2020), asked through our ledger and judged by our referee.

`recipes` builds one of its recipes around a model of ours; `replay` lets its search, which calls a
model, run inside a generator, which yields queries; `attack` is the `[[attack]]`.
"""
