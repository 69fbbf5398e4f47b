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
