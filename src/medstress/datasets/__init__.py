"""Data set sources, which return `Loaded` items."""
