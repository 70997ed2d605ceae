-- Every call that was computed and answered, once, in order of arrival; trial 0: taken from the
-- shared cache. There is no index by key, which would dirty a page a row: see
-- `medstress.store.key_index`.
CREATE TABLE answers (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL, trial INTEGER NOT NULL, body TEXT NOT NULL,
    seconds REAL NOT NULL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL);
CREATE INDEX taken ON answers (trial) WHERE trial = 0;
-- Calls handed to a back end and not yet answered, a batch a row, as [[key in hex, trial], ...];
-- what is left here when a run starts again was in flight when it died. It is no evidence.
CREATE TABLE dispatched (id INTEGER PRIMARY KEY, calls TEXT NOT NULL);
