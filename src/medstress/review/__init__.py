"""Cases out to experts, and their judgements back in: in a browser, in one file, or in a sheet."""
