"""Attack sets of other people: questions that come with misleading or renamed forms of theirs."""
