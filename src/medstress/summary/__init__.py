"""The numbers of a run: rows and ledger handed to the metrics."""
