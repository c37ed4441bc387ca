-- Search shows the best matches, and a frequent word may have millions. The words of a text therefore include its era:
-- a space and a number. An era covers 64 buckets of the ranking, about three days. The newest eras are searched first.
CREATE TABLE era (number BIGINT PRIMARY KEY);

-- Building an index is faster than updating it row by row.
DROP INDEX words_words;
DROP INDEX piece_words;
CREATE TEMPORARY TABLE part_era ON COMMIT DROP AS
    SELECT id, coalesce(greatest(0, at - 1704067200 + CASE field WHEN 0 THEN 4108223 WHEN 1 THEN 2592000
        WHEN 2 THEN -834438 WHEN 3 THEN 681785 WHEN 4 THEN 0 WHEN 5 THEN -1910215 END) / 4096 / 64, 0) AS era
    FROM part;
INSERT INTO era SELECT DISTINCT era FROM part_era;
UPDATE words SET words = words.words || array_to_tsvector(ARRAY[' ' || part_era.era])
    FROM part_era WHERE part_era.id = words.part;
UPDATE piece SET words = piece.words || array_to_tsvector(ARRAY[' ' || part_era.era])
    FROM part_era WHERE part_era.id = piece.part;
CREATE INDEX words_words ON words USING gin (words);
CREATE INDEX piece_words ON piece USING gin (words);

DO $$
DECLARE
    who NAME;
BEGIN
    FOR who IN SELECT role FROM member LOOP
        EXECUTE format('GRANT SELECT, INSERT ON era TO %I', who);
    END LOOP;
END $$;

ALTER FUNCTION add_member(NAME, BOOLEAN) RENAME TO add_member_to_annotations;
CREATE FUNCTION add_member(new_role NAME, may_read_all BOOLEAN DEFAULT FALSE) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM add_member_to_annotations(new_role, may_read_all);
    EXECUTE format('GRANT SELECT, INSERT ON era TO %I', new_role);
END $$;
REVOKE EXECUTE ON FUNCTION add_member(NAME, BOOLEAN) FROM PUBLIC;
