require_relative "shared_breaker"

payments = SharedBreaker["payments", "max-failures=2 open-for=30s"]
raise "not run" unless payments.run { 42 } == 42
2.times do
  payments.run { raise "refused" }
rescue RuntimeError
end
begin
  payments.run { abort "an open breaker runs nothing" }
rescue SharedBreaker::Rejected => e
  puts "try again in #{e.retry_after.round} s"
end

# An answer 429 with Retry-After: 60 holds the calls of all processes, and is no failure.
model = SharedBreaker["model"]
begin
  model.run { raise SharedBreaker::Hold.new(60, "HTTP 429") }
rescue SharedBreaker::Hold
end
begin
  model.run { abort "what is held runs nothing" }
rescue SharedBreaker::Rejected => e
  raise "not held" unless e.held? && e.retry_after.between?(50, 60)
end
