internal import BreakerCore
internal import CSQLite
internal import Glibc

/// How a connection waits for another process's write lock.
///
/// SQLite's own wait sleeps for ever longer times, so a late-comer loses as long as others keep
/// writing. Short random pauses give every waiter the same chance at each release, and a deadline
/// bounds the wait. The pauses are many times as long as a transaction: if writers alternated every
/// few transactions, each would find everything changed and have to read it all again.
@safe package final class Patience {
  private let timeout: Int64

  /// The instant of the monotonic clock at which the wait ends, if one is set.
  var limit: Int64?
  private var deadline: Int64 = 0

  init(timeout: Duration) { self.timeout = Self.nanoseconds(timeout) }

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
    let now = Self.monotonicNanoseconds()
    if attempts == 0 {
      deadline = limit ?? now + timeout
    }
    guard now < deadline else { return false }
    Self.pause(nanoseconds: min(.random(in: 150_000...1_000_000), deadline - now))
    return true
  }

  /// Waits, as a connection does, for something that others have; false if they keep it too long.
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
    atMost timeout: Duration, _ body: () throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    let deadline = deadline(after: timeout)
    while true {
      do throws(StoreError) {
        return try body()
      } catch {
        guard error.kind == .busy, monotonicNanoseconds() < deadline else { throw error }
        pause(nanoseconds: .random(in: 200_000...2_000_000))
      }
    }
  }

  /// The instant of the monotonic clock at which a wait that begins now ends.
  static func deadline(after timeout: Duration) -> Int64 {
    monotonicNanoseconds() + nanoseconds(timeout)
  }

  /// A wait in nanoseconds; an endless one is cut to some thirty years.
  static func nanoseconds(_ timeout: Duration) -> Int64 {
    Int64(min(max(0, (timeout / .nanoseconds(1)).rounded(.down)), 1e18))
  }

  package static func monotonicNanoseconds() -> Int64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }

  static func pause(nanoseconds: Int64) {
    var time = timespec(
      tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
    unsafe nanosleep(&time, nil)
  }
}
