-- What formats 1 and 2 overwrote: the manifest, and trials with how they ended; only to recognise
-- their folders.
CREATE TABLE manifest (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE trials (
    id INTEGER PRIMARY KEY, trial_id TEXT NOT NULL UNIQUE, arm INTEGER NOT NULL REFERENCES arms,
    item INTEGER NOT NULL REFERENCES items, repeat INTEGER NOT NULL,
    verdict TEXT, result TEXT);
