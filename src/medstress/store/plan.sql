-- What a run is about; `interrupted`: calls that were in flight when their process
-- died, which is no evidence.
CREATE TABLE items (
    id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, item_id TEXT NOT NULL, hash TEXT NOT NULL,
    body TEXT NOT NULL, UNIQUE (dataset, item_id));
CREATE TABLE arms (
    id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, grp TEXT NOT NULL, victim TEXT NOT NULL,
    attack TEXT NOT NULL, spec TEXT NOT NULL, seed INTEGER,
    UNIQUE (dataset, grp, victim, attack, seed));
CREATE TABLE interrupted (key BLOB NOT NULL, trial INTEGER NOT NULL);
