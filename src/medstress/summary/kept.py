"""Goes with this room; see `medstress.running.kept_summary`."""

from medstress.running.kept_summary import keep_summary as keep_summary
