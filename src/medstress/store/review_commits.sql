-- One row for each commit that added verdicts, with the last of them; see `medstress.store.chain`.
CREATE TABLE commits (id INTEGER PRIMARY KEY, digest BLOB NOT NULL, verdicts INTEGER NOT NULL);
