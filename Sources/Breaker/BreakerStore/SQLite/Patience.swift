internal import BreakerCore
internal import CHost
internal import CSQLite
internal import Glibc

/// How a connection waits for another process's write lock.
///
/// SQLite's own wait sleeps longer after each try, so a process that waits keeps losing while others
/// write. Short random pauses give every waiter the same chance at each release, and a deadline
/// bounds the wait. The pauses are many times as long as a transaction: if writers alternated every
/// few transactions, each would find everything changed and have to read it all again.
@safe package final class Patience {
  private let timeout: Int64
  private var deadline: Int64 = 0

  init(timeout: Duration) { self.timeout = Self.bounded(timeout.inNanoseconds) }

  /// Installs the wait on a connection, which this object must outlive.
  func install(on handle: OpaquePointer) {
    let context = unsafe Unmanaged.passUnretained(self).toOpaque()
    unsafe sqlite3_busy_handler(
      handle,
      { context, attempts in
        guard let context = unsafe context else { return 0 }
        let patience = unsafe Unmanaged<Patience>.fromOpaque(context).takeUnretainedValue()
        return patience.shouldRetry(after: attempts) ? 1 : 0
      }, context)
  }

  private func shouldRetry(after attempts: Int32) -> Bool {
    if attempts == 0 { deadline = Self.monotonicNanoseconds() + timeout }
    return Self.pause(150_000...Self.longestPause, until: deadline)
  }

  /// Waits, as a connection does, for something that others hold; false if they hold it too long.
  func outlasts(_ isTaken: () -> Bool) -> Bool {
    var attempts: Int32 = 0
    while isTaken() {
      guard shouldRetry(after: attempts) else { return false }
      attempts = 1
    }
    return true
  }

  /// Retries what does not wait by itself, as long as another process is in the way.
  static func retrying<Result>(
    atMost timeout: Duration, after isInTheWay: (StoreError) -> Bool = { $0.kind == .busy },
    _ body: () throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    let deadline = deadline(after: timeout)
    while true {
      do throws(StoreError) {
        return try body()
      } catch {
        guard isInTheWay(error), pause(until: deadline) else { throw error }
      }
    }
  }

  /// The instant of the monotonic clock at which a wait that begins now ends.
  static func deadline(after timeout: Duration) -> Int64 { deadline(after: timeout.inNanoseconds) }

  static func deadline(after timeout: Int64) -> Int64 {
    monotonicNanoseconds() + bounded(timeout)
  }

  /// The instant of the monotonic clock at which a wait for a store ends.
  package static func deadline(of wait: Wait, _ timeout: Duration) -> Int64 {
    switch wait {
    case .usual: deadline(after: timeout)
    case .brief: deadline(after: min(brief, timeout))
    }
  }

  /// The longest wait that no caller has asked for.
  static let brief = Duration.milliseconds(10)

  /// A wait; an endless one is cut to some thirty years.
  private static func bounded(_ timeout: Int64) -> Int64 {
    min(max(0, timeout), 1_000_000_000_000_000_000)
  }

  package static func monotonicNanoseconds() -> Int64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }
}

/// The waits of one thread, which share one bound however many they are.
extension Patience {
  /// Runs a body in which every wait of this thread ends at an instant of the monotonic clock.
  ///
  /// This bounds every wait for another process, or for another thread of this one, in SQLite or
  /// here. A bound that is already set still applies. Work that does not wait is not bounded.
  package static func bounded<Result, Failure: Error>(
    by deadline: Int64, _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let outer = end
    forgetInterruption()
    sb_set_wait_end(min(outer, deadline))
    defer { sb_set_wait_end(outer) }
    return try body()
  }

  /// Runs code of the application, whose waits have no bound.
  package static func unbounded<Result>(_ body: () -> Result) -> Result {
    let outer = sb_set_wait_end(.max)
    defer { sb_set_wait_end(outer) }
    return body()
  }

  /// Lets this thread ask a function, or else an integer in memory, before each pause whether its
  /// waits are over.
  package static func ask(
    _ areOver: (@convention(c) (UnsafeMutableRawPointer?) -> Int32)?,
    _ context: UnsafeMutableRawPointer?
  ) { unsafe sb_ask_before_pauses(areOver, context) }

  /// The instant at which every wait of this thread ends; `Int64.max` if there is none.
  package static var end: Int64 { sb_wait_end() }

  /// Whether a wait that ends at an instant is over.
  static func isOver(at deadline: Int64) -> Bool { sb_ask(deadline) != Int32(SB_WAIT_GOES_ON) }

  /// How long a wait may sleep before it must ask again whether it is over, as an instant.
  static func nextQuestion(before deadline: Int64) -> Int64 { sb_next_question(deadline) }

  /// Forgets whether a wait of this thread was ended early, unless it is part of a longer one.
  package static func forgetInterruption() { if end == .max { sb_forget_interruption() } }

  /// Whether a wait of this thread was ended early.
  package static var wasInterrupted: Bool { sb_was_interrupted() != 0 }

  /// Pauses for as long as a transaction took, so that others can write before the next one.
  ///
  /// Processes that wait to write look only now and then. Between transactions that follow closely
  /// upon each other they would rarely find the store free.
  static func letOthersWrite(after transaction: Int64) {
    guard transaction >= longestPause else { return }
    _ = pause(transaction...transaction, until: deadline(after: brief))
  }

  /// The longest pause of a connection that waits for others, in nanoseconds.
  private static let longestPause: Int64 = 1_000_000

  /// Pauses before the caller tries again; false if it has waited long enough.
  static func pause(
    _ time: ClosedRange<Int64> = 200_000...2_000_000, until deadline: Int64
  ) -> Bool {
    let rest = deadline - monotonicNanoseconds()
    return rest > 0 && sb_pause(min(.random(in: time), rest)) == Int32(SB_WAIT_GOES_ON)
  }
}
