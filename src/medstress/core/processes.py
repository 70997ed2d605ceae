"""What processes that we start are given."""

from __future__ import annotations

import sys

NEW_GROUP = 0x0000_0200 if sys.platform == "win32" else 0
"""`creationflags` of a process that a Ctrl-C at the terminal must not reach. It is Windows'
CREATE_NEW_PROCESS_GROUP; elsewhere `start_new_session` does the same."""
