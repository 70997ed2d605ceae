"""Figures and tables for one's own paper; how figures are drawn, captioned and put in LaTeX."""
