CREATE TABLE machine (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL
);

-- A file of an agent, as it was at the last scan. When it is truncated, the old row stays, marked as replaced.
CREATE TABLE file (
    id INTEGER PRIMARY KEY,
    machine INTEGER NOT NULL REFERENCES machine,
    agent TEXT NOT NULL,
    path TEXT NOT NULL,
    device INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    size INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    kept INTEGER NOT NULL,
    mark BLOB NOT NULL,
    gone_at REAL,
    replaced_at REAL
);
CREATE UNIQUE INDEX file_path ON file (machine, path) WHERE replaced_at IS NULL;

CREATE TABLE chunk (
    file INTEGER NOT NULL REFERENCES file,
    start INTEGER NOT NULL,
    length INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (file, start)
);

CREATE TABLE session (
    id INTEGER PRIMARY KEY,
    machine INTEGER NOT NULL REFERENCES machine,
    agent TEXT NOT NULL,
    name TEXT NOT NULL,
    ref TEXT NOT NULL,
    kind TEXT NOT NULL,
    parent TEXT,
    origin TEXT,
    project TEXT,
    title TEXT,
    started REAL,
    ended REAL,
    status TEXT NOT NULL,
    messages INTEGER NOT NULL,
    sealed INTEGER NOT NULL,
    counts TEXT NOT NULL,
    head BLOB NOT NULL,
    facts BLOB NOT NULL,
    around TEXT NOT NULL,
    gone_at REAL,
    UNIQUE (machine, agent, name)
);
CREATE INDEX session_ended ON session (ended);

CREATE TABLE session_file (
    session INTEGER NOT NULL REFERENCES session,
    place INTEGER NOT NULL,
    file INTEGER NOT NULL REFERENCES file,
    PRIMARY KEY (session, place)
) WITHOUT ROWID;
CREATE INDEX session_file_file ON session_file (file);

CREATE TABLE block (
    session INTEGER NOT NULL REFERENCES session,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (session, first)
);

CREATE TABLE name (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
);

-- A searchable text. Its words are in `words` under the same id.
CREATE TABLE part (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES session,
    message INTEGER NOT NULL,
    field INTEGER NOT NULL,
    author INTEGER NOT NULL,
    tool INTEGER REFERENCES name,
    model INTEGER REFERENCES name,
    at INTEGER
);
CREATE INDEX part_message ON part (session, message);

-- Column sizes are only needed by FTS5's own ranking. Older stores have them as well.
CREATE VIRTUAL TABLE words USING fts5 (
    text, content = '', columnsize = 0, tokenize = 'unicode61 remove_diacritics 0'
);
-- Words are buffered in memory up to this size, and segments are merged only when there are many.
INSERT INTO words (words, rank) VALUES ('hashsize', 16777216);
INSERT INTO words (words, rank) VALUES ('automerge', 0);

CREATE TABLE event (
    session INTEGER NOT NULL REFERENCES session,
    place INTEGER NOT NULL,
    kind TEXT NOT NULL,
    message INTEGER,
    at REAL,
    tool TEXT,
    data BLOB NOT NULL,
    PRIMARY KEY (session, place)
) WITHOUT ROWID;
CREATE INDEX event_kind ON event (kind, at);

-- Messages that the filter `is:` finds, by the mark they have.
CREATE TABLE place (
    session INTEGER NOT NULL REFERENCES session,
    message INTEGER NOT NULL,
    kind TEXT NOT NULL,
    PRIMARY KEY (session, message, kind)
) WITHOUT ROWID;

-- Consecutive messages that are on a branch, or no longer in context.
CREATE TABLE span (
    session INTEGER NOT NULL REFERENCES session,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    branch INTEGER NOT NULL,
    context TEXT NOT NULL,
    PRIMARY KEY (session, first)
) WITHOUT ROWID;

CREATE TABLE touch (
    path INTEGER NOT NULL REFERENCES name,
    session INTEGER NOT NULL REFERENCES session,
    message INTEGER NOT NULL,
    PRIMARY KEY (path, session, message)
) WITHOUT ROWID;
CREATE INDEX touch_session ON touch (session, message);

-- The rows that statistics count: prompts, replies with their tokens, and results of calls.
CREATE TABLE act (
    session INTEGER NOT NULL REFERENCES session,
    message INTEGER NOT NULL,
    place INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name INTEGER REFERENCES name,
    outcome TEXT,
    at INTEGER,
    input INTEGER,
    output INTEGER,
    cache_read INTEGER,
    cache_write INTEGER,
    reasoning INTEGER,
    PRIMARY KEY (session, message, place)
) WITHOUT ROWID;

CREATE TABLE journal (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    session INTEGER,
    data TEXT NOT NULL
);
