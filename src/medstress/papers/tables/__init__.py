"""Tables of the papers, as CSV and LaTeX."""
