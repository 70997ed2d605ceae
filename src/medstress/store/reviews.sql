-- What experts say about a run. It stands in a file of its own, so that people who judge and a run
-- that still goes on never wait for each other. Verdicts are only added; the latest one counts.
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
-- The samples that people were given.
CREATE TABLE rooms (id INTEGER PRIMARY KEY, room TEXT NOT NULL UNIQUE, body TEXT NOT NULL);
CREATE TABLE raters (
    room TEXT NOT NULL, reviewer TEXT NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY (room, reviewer)) WITHOUT ROWID;
-- trial_id is null for planted controls.
CREATE TABLE verdicts (
    id INTEGER PRIMARY KEY, case_id TEXT, trial_id TEXT, control TEXT, control_of TEXT,
    reviewer TEXT NOT NULL, role TEXT NOT NULL, answers TEXT NOT NULL, note TEXT NOT NULL,
    time TEXT NOT NULL);
-- One row for each commit that added a room or verdicts, with the last row of each; see
-- `medstress.store.chain`.
CREATE TABLE commits (
    id INTEGER PRIMARY KEY, digest BLOB NOT NULL, rooms INTEGER NOT NULL, verdicts INTEGER NOT NULL);
