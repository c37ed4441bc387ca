-- Sessions that were removed on purpose, and are not imported again. There is one row for each of their files, and one
-- with an empty path. This version also adds checksums to packed data, which earlier versions of unspool cannot read.
CREATE TABLE forgotten (
    machine INTEGER NOT NULL REFERENCES machine,
    agent TEXT NOT NULL,
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (machine, agent, name, path)
) WITHOUT ROWID;
