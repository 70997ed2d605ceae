"""Cases out to experts, and their judgements back in."""
