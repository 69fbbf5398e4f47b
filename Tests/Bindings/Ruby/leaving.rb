# Tests the class of the Ruby guide: how each way to leave a block counts, and that no exception of another
# thread comes between a permit and its report.
#
#   ruby -w Tests/Bindings/Ruby/leaving.rb CLASS STORE
require "json"
require File.expand_path(ARGV.fetch(0))

# A shell that runs this in the background may have it ignore the signal that one of the ways needs.
trap("INT", "DEFAULT")

STORE = ARGV.fetch(1)
MANY = "max-failures=1000000"

def fail!(words) = abort("leaving.rb: #{words}")

# The totals of a breaker in the store.
def totals(breaker)
  out = [0].pack("J")
  SharedBreaker.call(breaker.instance_variable_get(:@handle)) { |handle| SharedBreaker::C.sb_breaker_snapshot(handle, out, nil) }
  text = Fiddle::Pointer.new(out.unpack1("J"))
  counted = JSON.parse(text.to_s).fetch("totals")
  SharedBreaker::C.sb_free(text)
  counted
end

# An exception that is no StandardError, as rack-timeout's.
class RequestTimeout < Exception; end

# Raises in a thread once it sleeps.
def interrupt(thread, error)
  Thread.new do
    Thread.pass until thread.stop?
    thread.raise(error)
  end
end

def returning(breaker) = breaker.run { return 1 }
def breaking(breaker) = breaker.run { break 1 }
def going_on(breaker) = breaker.run { next 1 }
def throwing(breaker) = catch(:halt) { breaker.run { throw :halt } }
def raising(breaker) = breaker.run { raise IOError, "refused" }
def timing_out_around(breaker) = Timeout.timeout(0.02) { breaker.run { sleep } }
def timing_out_inside(breaker) = breaker.run { Timeout.timeout(0.02) { sleep } }
def timing_out_as(breaker) = Timeout.timeout(0.02, RequestTimeout) { breaker.run { sleep } }
def exiting(breaker) = breaker.run { exit }

def interrupted(breaker)
  interrupt(Thread.current, RequestTimeout)
  breaker.run { sleep }
end

def stopped(breaker) = breaker.run { Process.kill(:INT, Process.pid) && sleep }

def killed(breaker)
  thread = Thread.new { breaker.run { sleep } }
  Thread.pass until thread.stop? && totals(breaker)
  thread.kill.join
end

# An error that the block copes with itself is no failure of the resource, and neither is a return after it.
def coping(breaker)
  breaker.run do
    begin
      Timeout.timeout(0.02) { SharedBreaker["other", MANY, STORE].run { sleep } }
    rescue Timeout::Error
      # copes
    end
    return 1
  end
end

{
  returning: "successes", breaking: "successes", going_on: "successes", throwing: "successes",
  raising: "failures", timing_out_around: "failures", timing_out_inside: "failures",
  timing_out_as: "failures", interrupted: "failures", exiting: "ignored", stopped: "ignored",
  killed: "ignored", coping: "successes",
}.each do |way, expected|
  breaker = SharedBreaker[way.to_s, MANY, STORE]
  begin
    send(way, breaker)
  rescue Exception => e
    fail!("#{way} raised #{e.full_message}") if e.is_a?(NameError) || e.is_a?(SharedBreaker::Error)
  end
  counted = totals(breaker)
  fail!("#{way}: #{counted}") unless counted.fetch(expected) == 1
  fail!("#{way}: #{counted}") unless counted.values_at("successes", "failures", "ignored").sum == 1
end
inner = totals(SharedBreaker["other", MANY, STORE])
fail!("the inner call: #{inner}") unless inner.fetch("failures") == 1

# No report is lost over its time or its words.
class Wordless < IOError
  def message = raise("no words")
end

held = SharedBreaker["held", "max-failures=1 max-concurrent=1", STORE]
[-0.003, "0", Float::INFINITY].each do |seconds|
  held.run { raise SharedBreaker::Hold.new(seconds) }
rescue SharedBreaker::Hold
  held.end_hold
end
fail!("holds: #{totals(held)}") unless totals(held).fetch("holds") == 3
begin
  held.run { raise Wordless }
rescue Wordless
  # as it was
end
fail!("without words: #{totals(held)}") unless totals(held).fetch("failures") == 1

# An exception that comes while the library answers.
module Late
  # The name of the function that it comes after, and what comes.
  class << self
    attr_accessor :function
  end

  %i[sb_enter sb_leave].each do |name|
    define_method(name) do |*arguments|
      code = super(*arguments)
      if Late.function == name && code.zero?
        Late.function = nil
        Thread.current.raise(RequestTimeout)
      end
      code
    end
  end
end
SharedBreaker::C.singleton_class.prepend(Late)

# A probe may take an hour, so one without a report keeps the others waiting.
def probe(breaker)
  loop { return breaker.run { yield } rescue SharedBreaker::Rejected }
end

%i[sb_enter sb_leave].each do |name|
  breaker = SharedBreaker[name.to_s, "max-failures=1 open-for=1ms jitter=0% probe-timeout=1h", STORE]
  begin
    breaker.run { raise IOError }
  rescue IOError
    # opens it
  end
  begin
    Late.function = name
    probe(breaker) { 1 }
    fail!("nothing came after #{name}")
  rescue RequestTimeout
    # came
  end
  Timeout.timeout(30) { probe(breaker) { 1 } }
end

# Threads share what the process has opened.
before = Dir.children("/proc/self/fd").size
8.times.map { Thread.new { 50.times { SharedBreaker["threads", MANY, STORE].run { 1 } } } }.each(&:join)
counted = totals(SharedBreaker["threads", MANY, STORE])
fail!("the threads: #{counted}") unless counted.fetch("successes") == 400
fail!("descriptors are left") unless Dir.children("/proc/self/fd").size == before

# Each error has its own words.
begin
  SharedBreaker["bad", "max-failure=3", STORE]
  fail!("a policy with an unknown word was accepted")
rescue SharedBreaker::Error => e
  fail!("the words are '#{e.message}'") unless e.message.include?("max-failures")
end
