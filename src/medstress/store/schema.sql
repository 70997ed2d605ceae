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
-- Every call that was computed and answered, once; trial 0: taken from the shared cache.
CREATE TABLE answers (
    key BLOB PRIMARY KEY, trial INTEGER NOT NULL, body TEXT NOT NULL, seconds REAL NOT NULL,
    tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX taken ON answers (trial) WHERE trial = 0;
-- Every call a trial consumed, in order.
CREATE TABLE exchanges (
    trial INTEGER NOT NULL, seq INTEGER NOT NULL, role TEXT NOT NULL, purpose TEXT NOT NULL,
    query INTEGER, call INTEGER NOT NULL, key BLOB NOT NULL, edits TEXT, request TEXT, error TEXT,
    PRIMARY KEY (trial, seq)) WITHOUT ROWID;
-- Calls handed to a back end and not yet answered; what is left here when a run starts again
-- was in flight when it died.
CREATE TABLE dispatched (key BLOB PRIMARY KEY, trial INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE interrupted (key BLOB NOT NULL, trial INTEGER NOT NULL);
