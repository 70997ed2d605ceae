"""Look at a run: in the terminal while it runs, one case, or all of it in a browser."""
