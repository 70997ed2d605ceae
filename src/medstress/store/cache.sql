-- Answers that runs share, by the content of their calls; `check_value` is a digest of the row.
CREATE TABLE answers (
    key BLOB PRIMARY KEY, model TEXT NOT NULL, model_hash TEXT NOT NULL, body TEXT NOT NULL,
    tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, seconds REAL NOT NULL,
    stored INTEGER NOT NULL, check_value BLOB NOT NULL) WITHOUT ROWID;
-- Files of functions that go by name and version.
CREATE TABLE files (
    model_hash TEXT PRIMARY KEY, file TEXT NOT NULL, text_hash TEXT) WITHOUT ROWID;
