"""Renderers: tables as text for the terminal, HTML, LaTeX, CSV and Markdown; no measure is known."""
