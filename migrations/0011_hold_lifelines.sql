-- The byte that an owner has locked for as long as it lives, and the inode number of the file that it is in.
-- NULL if it holds none. Every process of the host can see whether the byte is locked, in every PID namespace.
ALTER TABLE lease ADD COLUMN lifeline INTEGER;
ALTER TABLE lease ADD COLUMN lifeline_file INTEGER;
ALTER TABLE hook ADD COLUMN lifeline INTEGER;
ALTER TABLE hook ADD COLUMN lifeline_file INTEGER;
