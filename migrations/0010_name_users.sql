-- For whom the program of an event acted, and the command that it ran for them, without arguments; NULL for
-- a program that acted for itself.
ALTER TABLE event ADD COLUMN user TEXT;
ALTER TABLE event ADD COLUMN command TEXT;
