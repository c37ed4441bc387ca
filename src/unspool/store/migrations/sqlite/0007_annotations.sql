-- Pins, notes and tags that people add to sessions. They refer to the session by name, because its row may be replaced.
CREATE TABLE annotation (
    id INTEGER PRIMARY KEY,
    machine INTEGER NOT NULL REFERENCES machine,
    agent TEXT NOT NULL,
    name TEXT NOT NULL,
    message INTEGER,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    at REAL NOT NULL
);
CREATE INDEX annotation_session ON annotation (machine, agent, name);
