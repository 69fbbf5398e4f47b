import SharedBreaker
import TestSupport
import Testing

/// The pages of the store that a healthy call reads and writes.
@Suite(.enabled(if: LockedMemory.isPossible, "RLIMIT_MEMLOCK is too low"))
struct LockedMemoryTests {
  private static let hot = "breakers.db-counters breakers.db-shm"

  @Test(
    .timeLimit(.minutes(60)), .disabled(if: Memory.isWatched, "a sanitizer ignores mlock(2)"))
  func `the pages that a healthy call uses stay in memory, also in the child of a fork`() throws {
    let stage = try Stage()
    let puppet = try stage.puppets(1, "failure-rate=50% window=1m")[0]
    for command in ["locked-files", "fork locked-files", "locked-files"] {
      #expect(try puppet.ask(command) == Self.hot, "\(command)")
    }
  }

  @Test(
    .timeLimit(.minutes(60)), .disabled(if: Memory.isWatched, "a sanitizer ignores mlock(2)"))
  func `the pages that a call under a limit uses stay in memory too`() throws {
    let stage = try Stage()
    let puppet = try stage.puppets(1, "max-concurrent=2")[0]
    for command in ["locked-files", "fork locked-files", "locked-files"] {
      let files = try puppet.ask(command)
      #expect(files.contains("breakers.db-slots"), "\(command): \(files)")
    }
  }
}
