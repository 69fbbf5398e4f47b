import Glibc
import SharedBreaker
import TestSupport
import Testing

/// A process that opened its store as root, and then became another user.
@Suite(.enabled(if: isSuperuser, "needs root, whose rights a process drops"))
struct DroppedRightsTests {
  private static func directory() throws -> TemporaryDirectory {
    let directory = try TemporaryDirectory()
    try Files.changeMode(directory.path, to: 0o755)
    return directory
  }

  @Test(.timeLimit(.minutes(60)), arguments: [0o600, 0o644] as [UInt32])
  func `a process that drops its rights reads on with what it has open`(mode: UInt32) async throws {
    let directory = try Self.directory()
    await #expect(processExitsWith: .success) { [path = directory.store as String, mode] in
      let store = try Self.openAsRoot(path, mode)
      // A listing takes its own connection, which this user may not open.
      #expect(try store.names() == ["api"])
      #expect(try store.history().count == 1)
      #expect(try store.breaker("api").snapshot().state == .open)
      try store.breaker("api").reset()
      #expect(try store.history().count == 2)
      #expect(store.health == .connected)
    }
  }

  @Test(.timeLimit(.minutes(60)), arguments: [0o600, 0o644] as [UInt32])
  func `the log of a process that drops its rights does not grow without end`(
    mode: UInt32
  ) async throws {
    let directory = try Self.directory()
    await #expect(processExitsWith: .success) { [path = directory.store as String, mode] in
      let store = try Self.openAsRoot(path, mode)
      let breaker = try store.breaker("api")
      for _ in 0..<1_500 {
        try breaker.reset()
        try breaker.trip()
      }
      // Its size may be looked up, even if this user may not read it.
      var log = stat()
      let found = unsafe lstat(path + "-wal", &log)
      #expect(found == 0)
      // A thousand pages are moved at once; without that there would be several thousand.
      #expect((1_000_000..<5_500_000).contains(log.st_size))
      #expect(store.health == .connected)
    }
  }

  /// Opens a store that has a tripped breaker, and becomes the user `nobody`.
  private static func openAsRoot(_ path: String, _ mode: UInt32) throws -> SharedStore {
    // The process that makes a store needs both of its connections at once.
    let maker = SharedStore(path: path, options: StoreOptions(mode: mode))
    try maker.breaker("api").trip()
    maker.close()
    let store = SharedStore(path: path)
    try store.connect()
    try Files.changeMode(String(path.dropLast("/breakers.db".count)), to: 0o755)
    try become(user: 65_534, group: 65_534)
    return store
  }
}
