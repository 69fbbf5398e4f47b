require "fiddle/import"
require "io/wait"
require "timeout"

# Breakers that all processes of the host share.
module SharedBreaker
  # The functions, structs and numbers of the library, as its header declares them.
  module C
    # Below /usr/local if scripts/install has installed the library.
    HEADER = File.read("/usr/share/sharedbreaker/ffi-1.h")
    extend Fiddle::Importer
    dlload "libsharedbreaker.so.1"
    HEADER.scan(/(SB_\w+) = (-?\d+)/) { |name, number| const_set(name, Integer(number)) }
    HEADER.scan(/^typedef struct sb_(\w+) { (.+); }/) do |name, members|
      const_set(name.capitalize, struct(members.split("; ")))
    end
    HEADER.each_line(";\n", chomp: true) { |line| extern line if line.end_with?(")") }

    # A new struct of a class, empty but for its size.
    def self.make(type)
      made = type.malloc(Fiddle::RUBY_FREE)
      made.to_ptr[0, type.size] = [type.size].pack("L").ljust(type.size, "\0")
      made
    end
  end

  class Error < StandardError; end

  # Raise it in a block to say that the resource works and asks to be left alone, such as by an answer 429. The calls
  # of all processes are then held for that time, or for as long as the policy says. It is no failure.
  class Hold < StandardError
    attr_reader :seconds

    def initialize(seconds = nil, message = "the resource asks to be left alone")
      @seconds = seconds && Float(seconds)
      raise ArgumentError, "#{seconds} is not a time" if @seconds&.nan?
      super(message)
    end
  end

  class Rejected < Error
    attr_reader :retry_after

    def initialize(rejection)
      nanoseconds = rejection.retry_after_ns
      @retry_after = nanoseconds.negative? ? nil : nanoseconds / 1e9
      @cause = rejection.cause
      super(if busy? then "there is no room for another call"
            elsif too_fast? then "as many calls have begun as the rate permits"
            elsif ramping? then "the breaker lets few calls through at a time after a pause"
            elsif held? then "the resource has asked to be left alone"
            else "the breaker rejects calls"
            end)
    end

    # Whether the breaker permits calls, but has no room for another one.
    def busy? = @cause == C::SB_CAUSE_BUSY

    # Whether the resource has just come back, so that few calls go at once.
    def ramping? = @cause == C::SB_CAUSE_RAMPING

    # Whether as many calls have begun in the last interval as the rate of the breaker permits.
    def too_fast? = @cause == C::SB_CAUSE_RATE

    # Whether the resource works, and has asked to be left alone until then.
    def held? = @cause == C::SB_CAUSE_HELD
  end

  # Until Ruby 3.2, a timeout leaves blocks by `throw`, as Sinatra's `halt` does. This notes that a timeout is
  # on its way from its throw to its catch.
  module TimeoutOnItsWay
    def exception(*)
      Thread.current[:timeout_on_its_way] = @catch_value
      raised = super
      Thread.current[:timeout_on_its_way] = nil # It was not thrown.
      raised
    end

    module Catch
      def catch(*)
        own = nil
        super { |timeout| yield own = timeout }
      ensure
        Thread.current[:timeout_on_its_way] = nil if Thread.current[:timeout_on_its_way].equal?(own)
      end
    end
  end
  if Timeout::Error.respond_to?(:catch)
    Timeout::Error.prepend(TimeoutOnItsWay)
    Timeout::Error.singleton_class.prepend(TimeoutOnItsWay::Catch)
  end

  # The breaker of a name. The process opens its store once, however often you ask.
  def self.[](name, policy = nil, path = nil) = Breaker.new(name, policy, path)

  # Makes a call, whose error leaves its words in a struct of its own, because a Ruby thread may go on in
  # another thread of the system.
  def self.call(handle = nil)
    error = C.make(C::Error)
    error.handle = handle if handle
    code = yield error
    return code unless code.negative?
    raise Error, error.text.pack("c*").byteslice(0, error.text_length).force_encoding("UTF-8")
  end

  class Breaker
    def initialize(name, policy, path)
      out = [0].pack("J")
      SharedBreaker.call do |error|
        C.sb_shared_breaker(path, path ? path.bytesize : 0, nil, name, name.bytesize,
                            policy, policy ? policy.bytesize : 0, out, error)
      end
      @name, @handle = name, out.unpack1("J")
    end

    # This breaker, for calls that take several units of its limit, or that wait behind all others.
    def claiming(units, background: false)
      out = [0].pack("J")
      flags = background ? C::SB_BACKGROUND : 0
      SharedBreaker.call(@handle) { |breaker| C.sb_breaker_claiming(breaker, units, flags, out) }
      dup.tap { |other| other.instance_variable_set(:@handle, out.unpack1("J")) }
    end

    # Holds the calls of all processes for some seconds, as a Hold that a block raises does.
    def hold(seconds, reason = "")
      time = (seconds * 1e9).round
      SharedBreaker.call(@handle) { |breaker| C.sb_hold(breaker, time, reason, reason.bytesize) }
    end

    # Ends a hold, so that all calls may go; without one, nothing changes.
    def end_hold(reason = "")
      SharedBreaker.call(@handle) { |breaker| C.sb_hold_end(breaker, reason, reason.bytesize) }
    end

    # Runs a block if the breaker permits it. An exception is a failure, a timeout too, but not a Hold; leaving the block by
    # `next`, `break`, `return` or `throw` is a success.
    def run
      # No exception of another thread, such as a timeout, comes between the permit and the block, or
      # between the block and the report.
      Thread.handle_interrupt(Object => :never) do
        permit = enter
        begin
          outcome, has_begun = C::SB_SUCCESS, false
          Thread.handle_interrupt(Object => :immediate) do
            has_begun = true
            yield
          end
        rescue SystemExit, SignalException # say nothing about the resource
          outcome = C::SB_IGNORED
          raise
        rescue Hold => error
          outcome = C::SB_HOLD
          raise
        rescue Exception => error # a timeout need not be a StandardError
          outcome = C::SB_FAILURE
          raise
        ensure
          timeout = Thread.current[:timeout_on_its_way]
          outcome, error = C::SB_FAILURE, timeout if timeout
          # By Thread#kill, or by an exception that has waited for the permit.
          outcome = C::SB_IGNORED if Thread.current.status == "aborting" || !has_begun
          leave(permit, outcome, error)
        end
      end
    end

    private

    def enter
      permit, rejection = C.make(C::Permit), C.make(C::Rejection)
      code = SharedBreaker.call(@handle) { |breaker| C.sb_enter(breaker, permit, rejection, C::SB_UNLIMITED) }
      code = take_room(permit, rejection) if code == C::SB_LIMITED
      raise Rejected, rejection if code == C::SB_REJECTED
      permit
    end

    # A call inside of another one of the same fiber uses its room. Any other takes room, or waits for its turn.
    def take_room(permit, rejection)
      rooms, out = (Thread.current[:shared_breaker_rooms] ||= {}), [0].pack("J")
      code = SharedBreaker.call(@handle) do |breaker|
        C.sb_turn_open(breaker, rooms.fetch(@name, 0), permit, rejection, out, 0)
      end
      code = await(out.unpack1("J"), permit, rejection) if code == C::SB_WAITING
      rooms[@name] = out.unpack1("Q") if code == C::SB_OK && C.sb_permit_room(permit, out) >= 0
      code
    end

    # Meanwhile other threads go on, and other fibers too if the thread has a scheduler. A timeout ends the wait.
    def await(turn, permit, rejection)
      ready = IO.for_fd(C.sb_turn_descriptor(turn), autoclose: false)
      code = C::SB_WAITING
      while code == C::SB_WAITING
        Thread.handle_interrupt(Object => :immediate) { ready.wait_readable }
        code = SharedBreaker.call(turn) { |its| C.sb_turn_take(its, permit, rejection, 0) }
      end
      code
    ensure
      C.sb_turn_free(turn)
    end

    # The words of an exception, which may fail to tell them, or have them in another encoding.
    def words_of(error)
      text = error.message.dup
      text = text.encode("UTF-8", invalid: :replace, undef: :replace) unless text.encoding == Encoding::BINARY
      "#{error.class}: ".b + text.b
    rescue Exception
      error.class.name.to_s
    end

    def leave(permit, outcome, error)
      details = C.make(C::Details)
      text = error ? words_of(error) : ""
      details.error = Fiddle::Pointer[text].to_i
      details.error_length = text.bytesize
      # A time that is over counts as none.
      details.hold_for_ns = (error.seconds.clamp(0, 31_536_000) * 1e9).round if outcome == C::SB_HOLD && error.seconds
      SharedBreaker.call(@handle) { |breaker| C.sb_leave(breaker, permit, outcome, details, 0) }
    end
  end
end
