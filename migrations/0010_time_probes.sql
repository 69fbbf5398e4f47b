-- While a probe is under way, callers are told to come back when probes usually have succeeded.
ALTER TABLE lease ADD COLUMN began_at_ns INTEGER;      -- NULL in leases of earlier versions
ALTER TABLE breaker ADD COLUMN usual_probe_ns INTEGER; -- NULL while no probe has succeeded
