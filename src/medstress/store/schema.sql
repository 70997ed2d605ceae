-- One run. Prompts are not stored: an exchange keeps the edits of its candidate, `items` the
-- item and `manifest` the template, from which the text is derived.
CREATE TABLE manifest (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE items (
    id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, item_id TEXT NOT NULL, hash TEXT NOT NULL,
    body TEXT NOT NULL, UNIQUE (dataset, item_id));
CREATE TABLE arms (
    id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, grp TEXT NOT NULL, victim TEXT NOT NULL,
    attack TEXT NOT NULL, spec TEXT NOT NULL, seed INTEGER,
    UNIQUE (dataset, grp, victim, attack, seed));
-- id is the position in the plan: a call asked by several queries is paid by the first of them.
CREATE TABLE trials (
    id INTEGER PRIMARY KEY, trial_id TEXT NOT NULL UNIQUE, arm INTEGER NOT NULL REFERENCES arms,
    item INTEGER NOT NULL REFERENCES items, repeat INTEGER NOT NULL,
    verdict TEXT, result TEXT);
CREATE TABLE interrupted (key BLOB NOT NULL, trial INTEGER NOT NULL);
