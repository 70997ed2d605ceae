"""Data set sources: one module each, returning `Loaded` (questions) or `LoadedTexts`."""
