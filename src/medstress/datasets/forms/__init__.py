"""The usual forms of questions in other people's files, recognised a file at a time, never a row.

A file says the same thing in every row: which columns hold the options, whether answers are
letters, numbers or texts, from where numbers count. So all rows are looked at before one is read,
and what more than one reading fits is refused with the key that settles it.
"""
