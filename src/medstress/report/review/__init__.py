"""Cases out to experts, and their judgements back in: in a browser, or in one file."""
