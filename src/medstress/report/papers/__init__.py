"""Tables and figures in the layouts of papers; `LAYOUTS` has them by name."""

from __future__ import annotations

from collections.abc import Mapping

from medstress.report.papers.araujo2020 import ARAUJO2020
from medstress.report.papers.layout import Layout
from medstress.report.papers.medfuzz2024 import MEDFUZZ2024
from medstress.report.papers.xian2025 import XIAN2025

LAYOUTS: Mapping[str, Layout] = {one.name: one for one in (XIAN2025, MEDFUZZ2024, ARAUJO2020)}
