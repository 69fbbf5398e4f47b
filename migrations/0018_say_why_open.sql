-- Why an operator has opened the breaker; NULL if no operator has, or gave no reason.
ALTER TABLE breaker ADD COLUMN open_reason TEXT;
