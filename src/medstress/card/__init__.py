"""The robustness card: one page about one victim of a run, in several forms.

`content` says what stands on it, `sections` in which order and words; `pages` writes it as
Markdown, HTML and JSON; `applied_model_card`, `model_index` and `every_eval_ever` write the same
content into other people's formats.
"""
