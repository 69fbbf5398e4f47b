import Glibc
import SharedBreaker

/// How long after the deadline a caller continues if its work ignores the deadline.
enum LateFreeing {
  static let timeout = Duration.milliseconds(20)
  static let calls = 50

  /// The child's side: makes the calls, and reports how many milliseconds after the deadline each
  /// ended.
  static func run(in room: Room) throws {
    let breaker = try room.openStore().breaker("late", policy: BreakerPolicy(maxFailures: 1_000))
    try breaker.run {}
    Task {
      var late: [Double] = []
      for _ in 0..<calls {
        let start = seconds()
        do {
          try await breaker.run(timeout: timeout) { await goOnRegardless() }
          complain("the work was not timed out")
        } catch {
          late.append((seconds() - start - timeout / .seconds(1)) * 1e3)
        }
      }
      Parent.report(late)
      exit(0)
    }
    while true { pause() }
  }

  /// Runs in a task of its own, which does not notice that its caller was cancelled.
  private static func goOnRegardless() async {
    await Task.detached { try? await Task.sleep(for: .seconds(1)) }.value
  }

  static func watch(in room: Room) throws -> [Double] {
    let late = try Children.numbers(try Children.start(.frees, [room.path]))
    guard late.count == calls else { throw BenchError("a child failed") }
    return late
  }
}
