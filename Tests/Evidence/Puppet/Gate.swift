import BreakerStore
import TestShim

/// Stops a write transaction of the store's own code at a step that the test names.
///
/// Step 1 is the moment at which `BEGIN IMMEDIATE` holds the write lock, and the last step is the
/// end of `COMMIT`. The gate reports the step to the test, and waits until the test lets it
/// continue.
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

  /// Makes the next transaction stop at a step, if it has that many.
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
