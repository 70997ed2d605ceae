-- Exchanges as format 2 kept them; only to recognise its folders.
CREATE TABLE exchanges (
    trial INTEGER NOT NULL, seq INTEGER NOT NULL, role TEXT NOT NULL, purpose TEXT NOT NULL,
    query INTEGER, call INTEGER NOT NULL, answer INTEGER REFERENCES answers, key BLOB, edits TEXT,
    request TEXT, error TEXT, PRIMARY KEY (trial, seq)) WITHOUT ROWID;
