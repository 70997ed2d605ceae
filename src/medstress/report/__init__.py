"""The report of a run: one self-contained HTML page, readable offline."""

from medstress.report.page import render_report

__all__ = ["render_report"]
