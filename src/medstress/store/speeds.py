"""How fast a model answered in earlier runs."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from medstress.core.errors import StoreError
from medstress.store.formats import make_views
from medstress.store.odd_rows import interpreting
from medstress.store.opening import open_for_reading
from medstress.store.run_store import FILE

_BUSY = """
SELECT COUNT(*), TOTAL(s.seconds) FROM answers s
JOIN trials t ON t.id = s.trial JOIN arms a ON a.id = t.arm WHERE s.seconds > 0 AND a.victim = ?
"""


def seconds_of_calls(folder: Path, model_hash: str) -> tuple[int, float]:
    """Return the computed calls of a model in a run, and the seconds that workers spent on them.

    A folder without a readable run gives (0, 0.0).
    """
    path = folder / FILE
    if not path.is_file():
        return 0, 0.0
    try:
        with interpreting(path), closing((opened := open_for_reading(path)).db) as db:
            make_views(db, opened.format)
            row = db.execute("SELECT value FROM manifest WHERE key = 'victims'").fetchone()
            victims = json.loads(row[0]) if row else {}
            calls, seconds = 0, 0.0
            for label, each in victims.items():
                if each.get("model_hash") == model_hash:
                    n, busy = db.execute(_BUSY, (label,)).fetchone()
                    calls, seconds = calls + int(n), seconds + float(busy)
    except StoreError:
        return 0, 0.0
    return calls, seconds
