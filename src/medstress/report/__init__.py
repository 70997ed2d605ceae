"""Renderers of tables: terminal, HTML, LaTeX, CSV and Markdown; none knows a measure."""
