-- While a probe is under way, callers are told to come back when probes usually have succeeded.
ALTER TABLE lease ADD COLUMN began_at_ns INTEGER;      -- NULL in leases of earlier versions
ALTER TABLE breaker ADD COLUMN usual_probe_ns INTEGER; -- NULL while no probe has succeeded

-- Whether calls began to be rejected with an event, which depends on the mode too; NULL in events of earlier
-- versions, whose change alone tells.
ALTER TABLE event ADD COLUMN begins_outage INTEGER;
