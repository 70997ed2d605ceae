"""An example of a medstress plug-in; see `pyproject.toml` for what it registers."""
