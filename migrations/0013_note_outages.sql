-- When the latest outages of a breaker began, on the boot clock, by which it is told whether it flaps; NULL if
-- none began since the host booted, and in breakers of earlier versions.
ALTER TABLE breaker ADD COLUMN outage_times BLOB;
