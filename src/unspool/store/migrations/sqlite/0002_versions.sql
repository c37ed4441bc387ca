-- Versions of files. Whenever a file is rewritten, the old row stays with its bytes and names the row that replaced it.
ALTER TABLE file ADD COLUMN ctime INTEGER NOT NULL DEFAULT 0;
ALTER TABLE file ADD COLUMN verified INTEGER NOT NULL DEFAULT 0;
ALTER TABLE file ADD COLUMN archived_at REAL;
ALTER TABLE file ADD COLUMN origin TEXT NOT NULL DEFAULT 'created';
ALTER TABLE file ADD COLUMN replaced_by INTEGER REFERENCES file;
-- Earlier versions kept the old row only if a file had become shorter.
UPDATE file SET replaced_by = (
    SELECT min(later.id) FROM file AS later
    WHERE later.machine = file.machine AND later.path = file.path AND later.id > file.id
) WHERE replaced_at IS NOT NULL;
UPDATE file SET origin = 'truncated', archived_at = (
    SELECT max(earlier.replaced_at) FROM file AS earlier WHERE earlier.replaced_by = file.id
) WHERE id IN (SELECT replaced_by FROM file);
CREATE INDEX file_replaced_by ON file (replaced_by) WHERE replaced_by IS NOT NULL;

-- A chunk of an old version may be stored as the difference to the same chunk of the version that replaced it: to its
-- first `base_length` bytes, because it may have grown since.
ALTER TABLE chunk ADD COLUMN base INTEGER REFERENCES file;
ALTER TABLE chunk ADD COLUMN base_length INTEGER;
CREATE INDEX chunk_base ON chunk (base) WHERE base IS NOT NULL;

-- The times at which bytes were appended to a file, and its size before (`start`).
CREATE TABLE growth (
    file INTEGER NOT NULL REFERENCES file,
    start INTEGER NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (file, start)
) WITHOUT ROWID;

-- Files and folders that could not be read in the last run.
CREATE TABLE unreadable (
    machine INTEGER NOT NULL REFERENCES machine,
    path TEXT NOT NULL,
    reason TEXT NOT NULL,
    since REAL NOT NULL,
    PRIMARY KEY (machine, path)
) WITHOUT ROWID;
