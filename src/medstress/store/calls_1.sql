-- Answers and exchanges as format 1 kept them; only to recognise its folders.
CREATE TABLE answers (
    key BLOB PRIMARY KEY, trial INTEGER NOT NULL, body TEXT NOT NULL, seconds REAL NOT NULL,
    tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE exchanges (
    trial INTEGER NOT NULL, seq INTEGER NOT NULL, role TEXT NOT NULL, purpose TEXT NOT NULL,
    query INTEGER, call INTEGER NOT NULL, key BLOB NOT NULL, edits TEXT, request TEXT, error TEXT,
    PRIMARY KEY (trial, seq)) WITHOUT ROWID;
CREATE TABLE dispatched (key BLOB PRIMARY KEY, trial INTEGER NOT NULL) WITHOUT ROWID;
