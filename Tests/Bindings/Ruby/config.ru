# The requests of the test of the guide to Puma.
require ENV.fetch("CLASS")

STORE = ENV.fetch("STORE")

def orders = SharedBreaker["orders", "max-failures=3 open-for=1h", STORE]
def many = SharedBreaker["many", "max-failures=1000000", STORE]

def returning = many.run { return "done" }

# In the master process, before it forks.
many.run { 1 }

run(lambda do |env|
  body =
    case env["PATH_INFO"]
    when "/return" then returning
    when "/orders" then orders.run { "done" }
    when "/hang" then Timeout.timeout(0.05) { orders.run { sleep } }
    when "/use" then "#{Process.pid} #{Dir.children("/proc/self/fd").count { |one| File.readlink("/proc/self/fd/#{one}").include?(STORE) rescue false }}"
    end
  [200, {}, [body]]
rescue Timeout::Error
  [504, {}, ["timed out"]]
rescue SharedBreaker::Rejected
  [503, {}, ["rejected"]]
end)
