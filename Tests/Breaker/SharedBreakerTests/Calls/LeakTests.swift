import Glibc
import SharedBreaker
import TestSupport
import Testing

/// Rounds of ten thousand calls at a time, and how much more memory each round leaves in use.
///
/// Each test measures in a process of its own, because the tests beside it use memory too. The exit
/// code of the first one is the number of bytes that a call has leaked.
@Suite(.timeLimit(.minutes(60))) struct LeakTests {
  private static let calls = 10_000

  @Test func `ten thousand calls at a time leak no memory`() async {
    await #expect(processExitsWith: .exitCode(0)) {
      exit(Int32(clamping: try await Self.growth { _ in } / Self.calls))
    }
  }

  @Test(.disabled(if: Memory.isWatched, "it would take many more rounds to settle"))
  func `ten thousand calls with a timeout leak no memory`() async {
    await #expect(processExitsWith: .success) {
      let growth = try await Self.growth(timeout: .seconds(600), rounds: 60) { _ in }
      exit(growth / Self.calls < 8 ? 0 : 1)
    }
  }

  @Test func `a leak of one object for each call is detected`() async {
    await #expect(processExitsWith: .success) {
      let growth = try await Self.growth { object in
        unsafe _ = Unmanaged.passRetained(object)
      }
      exit(growth / Self.calls >= 8 ? 0 : 1)
    }
  }

  private final class Leaked {}

  /// The least growth of memory over a round, without the first rounds, which allocate once.
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
      // Tasks and their queues keep the memory of their peak, which takes some rounds to settle.
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
