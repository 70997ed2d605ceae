"""Renderers: tables as terminal text, HTML, LaTeX, CSV and Markdown; no measure is known."""
