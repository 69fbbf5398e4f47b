import Glibc
import SharedBreaker
import TestSupport
import Testing

/// How much more memory is in use after each further ten thousand calls.
///
/// In processes of their own, which end with the bytes that a call has leaked as their exit code: the
/// tests beside them use memory too.
@Suite(.timeLimit(.minutes(10))) struct `Ten thousand calls at a time, again and again` {
  private static let calls = 10_000

  @Test func `leak nothing`() async {
    await #expect(processExitsWith: .exitCode(0)) {
      exit(Int32(clamping: try await Self.growth { _ in } / Self.calls))
    }
  }

  @Test(.disabled(if: Memory.isWatched, "it would take many more rounds to settle"))
  func `leak nothing if they have a timeout either`() async {
    await #expect(processExitsWith: .success) {
      let growth = try await Self.growth(timeout: .seconds(600), rounds: 60) { _ in }
      exit(growth / Self.calls < 8 ? 0 : 1)
    }
  }

  @Test func `would be seen to leak an object each`() async {
    await #expect(processExitsWith: .success) {
      let growth = try await Self.growth { object in
        unsafe _ = Unmanaged.passRetained(object)
      }
      exit(growth / Self.calls >= 8 ? 0 : 1)
    }
  }

  private final class Leaked {}

  /// The least by which memory has grown over a round, once all that is made only once is there.
  private static func growth(
    timeout: Duration? = nil, rounds: Int = 6, _ during: @escaping @Sendable (Leaked) -> Void
  ) async throws -> Int {
    let stage = try Stage()
    let breaker = try stage.sharedStore().breaker("api")
    var least = Int.max
    for round in 0..<rounds {
      let before = Memory.allocatedBytes
      await callAtOnce(breaker, timeout, during)
      if round >= 2 { least = min(least, Memory.allocatedBytes - before) }
      // Tasks and their queues keep what they have had at once, which takes them some rounds.
      if least < calls { break }
    }
    return max(0, least)
  }

  private static func callAtOnce(
    _ breaker: Breaker, _ timeout: Duration?, _ during: @escaping @Sendable (Leaked) -> Void
  ) async {
    await withTaskGroup(of: Void.self) { group in
      for number in 0..<calls {
        group.addTask {
          let work = { @Sendable in
            await Task.yield()
            during(Leaked())
            return number
          }
          if let timeout {
            _ = try? await breaker.run(timeout: timeout, work)
          } else {
            _ = try? await breaker.run { await work() }
          }
        }
      }
    }
  }
}
