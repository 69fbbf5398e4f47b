-- Processes agree through the store on which boot they run in, because not all of them can read the
-- kernel's boot id, and a container may show them another one. `boot` is the number of the boot in this
-- store; the other columns are the evidence by which a process finds out whether it is still the same.
ALTER TABLE store ADD COLUMN boot_id INTEGER;  -- checksum of the kernel's boot id; NULL if nobody could read it
ALTER TABLE store ADD COLUMN boot_seen_ns INTEGER NOT NULL DEFAULT 0;  -- when the note was written
-- Until now the number was the checksum of the id, or that of an empty text where it could not be read.
UPDATE store SET boot_id = boot WHERE boot NOT IN (0, -3750763034362895579);

-- Random, and renewed by the first process that finds itself with a copy of the store: permits, tokens
-- and claims carry it, so that one from before the copy was made is recognised. `identity` stays with the
-- store's counters.
ALTER TABLE store ADD COLUMN lineage INTEGER NOT NULL DEFAULT 0;
ALTER TABLE store ADD COLUMN lineage_file INTEGER NOT NULL DEFAULT 0;  -- the inode that it was drawn in
