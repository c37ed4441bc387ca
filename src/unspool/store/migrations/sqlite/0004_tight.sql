-- A block of messages may be packed against the archived bytes that its messages were read from: the `base_length`
-- bytes of the file `base` that begin at `base_start`. `tight` is 1 once it was packed as small as possible.
ALTER TABLE block ADD COLUMN base INTEGER REFERENCES file;
ALTER TABLE block ADD COLUMN base_start INTEGER;
ALTER TABLE block ADD COLUMN base_length INTEGER;
ALTER TABLE block ADD COLUMN tight INTEGER NOT NULL DEFAULT 0;
CREATE INDEX block_base ON block (base) WHERE base IS NOT NULL;
CREATE INDEX block_loose ON block (session, first) WHERE tight = 0;

-- In the same way, a chunk may be packed against earlier bytes of its own file.
ALTER TABLE chunk ADD COLUMN base_start INTEGER;
ALTER TABLE chunk ADD COLUMN tight INTEGER NOT NULL DEFAULT 0;
UPDATE chunk SET base_start = start WHERE base IS NOT NULL;
CREATE INDEX chunk_loose ON chunk (file, start) WHERE tight = 0 AND base IS NULL;
