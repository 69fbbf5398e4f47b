require_relative "shared_breaker"

gpu = SharedBreaker["gpu", "max-concurrent=2 queue-timeout=10s"]
training = gpu.claiming(2, background: true)
later = nil
training.run do
  # A call inside of another one needs no room of its own; that of another thread waits for it.
  raise "no room" unless gpu.run { 42 } == 42
  later = Thread.new { gpu.run { :its_turn } }
end
raise "not run" unless later.value == :its_turn

mail = SharedBreaker["mail", "max-concurrent=1"]
mail.run do
  # Without a queue, no caller waits.
  Thread.new do
    mail.run { abort "there is no room for this" }
  rescue SharedBreaker::Rejected => rejected
    raise unless rejected.busy?
  end.join
end
