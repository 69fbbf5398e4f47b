import BreakerStore
import TestShim

/// Stops a write transaction of the store's own code at a step that the test has named.
///
/// The steps are counted from the moment in which `BEGIN IMMEDIATE` holds the write lock (1) to the
/// end of `COMMIT`, which is the last. The test is told the step and says when to go on.
final class Gate: @unchecked Sendable {
  static let shared = Gate()

  private let lock = Lock()
  private var target = 0
  private var step = 0
  private var isInTransaction = false

  func install() {
    unsafe ts_watch_statements { sql, isDone in
      guard let sql = unsafe sql else { return }
      Gate.shared.saw(unsafe String(cString: sql), isDone: isDone != 0)
    }
  }

  /// The next transaction stops at this step, if it has so many.
  func stop(at step: Int) { lock.withLock { target = step } }

  private func saw(_ sql: String, isDone: Bool) {
    let stoppedAt: Int? = lock.withLock {
      if sql == "BEGIN IMMEDIATE" {
        guard isDone else { return nil }
        isInTransaction = true
        step = 0
      }
      guard isInTransaction else { return nil }
      step += 1
      if isDone, sql == "COMMIT" || sql == "ROLLBACK" { isInTransaction = false }
      guard step == target else { return nil }
      target = 0
      return step
    }
    guard let stoppedAt else { return }
    let words = sql.split(whereSeparator: \.isWhitespace).prefix(3).joined(separator: " ")
    Wire.shared.put("at \(stoppedAt) \(isDone ? "after" : "before") \(words)")
    _ = Wire.shared.line()
  }
}
