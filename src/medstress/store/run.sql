-- One run. Prompts are not stored: an exchange keeps the edits of its candidate, `items` the
-- item and `manifest` the template, from which the text is derived.
-- Rows are only added. What replaces an earlier row is a later row: of a key in `manifest`, of an
-- item in `renewals`, of a trial in `verdicts`, of a trial and name in `findings`.
CREATE TABLE manifest (id INTEGER PRIMARY KEY, key TEXT NOT NULL, value TEXT NOT NULL);
CREATE TABLE items (
    id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, item_id TEXT NOT NULL, hash TEXT NOT NULL,
    body TEXT NOT NULL, UNIQUE (dataset, item_id));
CREATE TABLE arms (
    id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, grp TEXT NOT NULL, victim TEXT NOT NULL,
    attack TEXT NOT NULL, spec TEXT NOT NULL, seed INTEGER,
    UNIQUE (dataset, grp, victim, attack, seed));
-- Items whose metadata, such as the document, was named later.
CREATE TABLE renewals (
    id INTEGER PRIMARY KEY, item INTEGER NOT NULL REFERENCES items, body TEXT NOT NULL);
-- Ids follow the plan: a call asked by several queries is paid by the first of them. place: the number
-- in the whole plan, also where the run is a shard of it; shards are merged in its order.
CREATE TABLE trials (
    id INTEGER PRIMARY KEY, trial_id TEXT NOT NULL UNIQUE, arm INTEGER NOT NULL REFERENCES arms,
    item INTEGER NOT NULL REFERENCES items, repeat INTEGER NOT NULL, place INTEGER NOT NULL);
-- How trials ended, with the digests of what each consumed and of the whole trial; without a
-- verdict: the trial begins again, and its next attempt is numbered one higher.
CREATE TABLE verdicts (
    id INTEGER PRIMARY KEY, trial INTEGER NOT NULL REFERENCES trials, verdict TEXT, result TEXT,
    exchanges BLOB, digest BLOB);
CREATE INDEX ended ON verdicts (trial);
CREATE INDEX begun_again ON verdicts (trial) WHERE verdict IS NULL;
-- What was found about a trial after it had ended; `value` is JSON.
CREATE TABLE findings (
    id INTEGER PRIMARY KEY, trial INTEGER NOT NULL REFERENCES trials, name TEXT NOT NULL,
    value TEXT NOT NULL);
CREATE INDEX found ON findings (trial);
-- Every call that was computed and answered, once, in order of arrival; trial 0: taken from the
-- shared cache. There is no index by key, which would dirty a page a row: see
-- `medstress.store.run_store`.
CREATE TABLE answers (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL, trial INTEGER NOT NULL, body TEXT NOT NULL,
    seconds REAL NOT NULL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL);
-- Calls handed to a back end and not yet answered, in one row, as [[key in hex, trial], ...]; what
-- is left here when a run starts again was in flight when it died. It is no evidence.
CREATE TABLE dispatched (id INTEGER PRIMARY KEY, calls TEXT NOT NULL);
-- Calls that were in flight when their process died. It is no evidence.
CREATE TABLE interrupted (key BLOB NOT NULL, trial INTEGER NOT NULL);
-- Every call a trial consumed, in order; written by the trial, so that neighbours stay together.
-- The key is here only where there is no answer. `flags`, on the first call of a query: what it
-- says of itself; `request`: [call, sample], where item, edits and prompt do not determine it.
-- `verdicts` holds their digest.
CREATE TABLE exchanges (
    trial INTEGER NOT NULL, attempt INTEGER NOT NULL, seq INTEGER NOT NULL, role TEXT NOT NULL,
    purpose TEXT NOT NULL, query INTEGER, call INTEGER NOT NULL, answer INTEGER REFERENCES answers,
    key BLOB, edits TEXT, flags TEXT, request TEXT, error TEXT,
    PRIMARY KEY (trial, attempt, seq)) WITHOUT ROWID;
-- One row for each commit that added rows to the tables it names, with the last row of each; see
-- `medstress.store.chain`.
CREATE TABLE commits (
    id INTEGER PRIMARY KEY, digest BLOB NOT NULL, answered BLOB, manifest INTEGER NOT NULL,
    items INTEGER NOT NULL, renewals INTEGER NOT NULL, arms INTEGER NOT NULL,
    trials INTEGER NOT NULL, verdicts INTEGER NOT NULL, findings INTEGER NOT NULL,
    answers INTEGER NOT NULL);
