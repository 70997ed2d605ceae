"""Settings of the whole suite."""

from __future__ import annotations

from hypothesis import settings

# Slow machines are no defect: a time limit on single examples would only make tests flaky.
settings.register_profile("medstress", deadline=None)
settings.load_profile("medstress")
