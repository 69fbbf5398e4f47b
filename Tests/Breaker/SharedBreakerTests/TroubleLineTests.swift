import Glibc
import SharedBreaker
import TestSupport
import Testing

/// Lines that a process prints when it loses its store, and when the store is back.
@Suite struct TroubleLineTests {
  /// In a child of the test, prints its line while its store is a directory for a while.
  private static func lose(_ path: String, _ options: StoreOptions) throws {
    var options = options
    options.lockTimeout = .milliseconds(100)
    let store = SharedStore(path: path, options: options)
    let breaker = try store.breaker("api")
    for _ in 0..<3 { _ = try breaker.run { 42 } }
    Files.removeAll(path)
    let limit = ContinuousClock.now + .seconds(60)
    while store.health != .connected, ContinuousClock.now < limit {
      _ = try breaker.run { 42 }
      usleep(20_000)
    }
  }

  private static func callWithoutRights(_ path: String) throws {
    let store = SharedStore(path: path)
    _ = try store.breaker("api").run { 42 }
    guard case .unavailable(let error) = store.health else {
      throw SupportError("\(store.health)")
    }
    let words = "permission denied: it belongs to root, mode 0600, and this process runs as nobody"
    guard error.description.contains(words) else { throw SupportError("\(error)") }
  }

  private static func words(of bytes: [UInt8]) -> [Substring] {
    String(decoding: bytes, as: UTF8.self).split(separator: "\n")
      .filter { $0.hasPrefix("shared-breaker: ") }
  }

  @Test
  func `a process without an observer says once that its store is lost, and once that it is back`()
    async throws
  {
    let directory = try TemporaryDirectory()
    let path = directory.file("breakers.db")
    try Files.makeDirectory(path)
    let ended = await #expect(
      processExitsWith: .success, observing: [\.standardErrorContent]
    ) { [path = path as String] in
      try Self.lose(path, StoreOptions(program: "worker"))
    }
    let lines = Self.words(of: try #require(ended).standardErrorContent)
    #expect(lines.count == 2, "\(lines)")
    #expect(lines.first?.contains(" worker (") == true, "\(lines)")
    #expect(lines.first?.contains("): the store is unavailable: cannot use the store ") == true)
    #expect(lines.last?.hasSuffix("): the store is available again") == true, "\(lines)")
  }

  @Test(.timeLimit(.minutes(60)), arguments: ["full", "closed"])
  func `a process whose standard error takes nothing loses its store and lives on`(pipe: String)
    async throws
  {
    let directory = try TemporaryDirectory()
    let path = directory.file("breakers.db")
    try Files.makeDirectory(path)
    await #expect(processExitsWith: .success) {
      [path = path as String, pipe = pipe as String] in
      var ends: [Int32] = [-1, -1]
      guard unsafe Glibc.pipe(&ends) == 0 else { throw SupportError("no pipe") }
      signal(SIGPIPE, SIG_DFL)
      if pipe == "closed" {
        close(ends[0])
      } else {
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        while unsafe write(ends[1], [1], 1) == 1 {}
        _ = fcntl(ends[1], F_SETFL, 0)
      }
      let before = dup(STDERR_FILENO)
      dup2(ends[1], STDERR_FILENO)
      // Restored because the test itself prints.
      defer { dup2(before, STDERR_FILENO) }
      try Self.lose(path, StoreOptions(program: "worker"))
    }
  }

  @Test(arguments: ["observer", "option", "environment"])
  func `a process prints nothing if it has an observer or was told to be quiet`(way: String)
    async throws
  {
    let directory = try TemporaryDirectory()
    let path = directory.file("breakers.db")
    try Files.makeDirectory(path)
    let ended = await #expect(
      processExitsWith: .success, observing: [\.standardErrorContent]
    ) { [path = path as String, way = way as String] in
      if way == "environment" { unsafe setenv("SHARED_BREAKER_QUIET", "1", 1) }
      var options = StoreOptions()
      if way == "observer" { options.observer = { _ in } }
      if way == "option" { options.isQuiet = true }
      try Self.lose(path, options)
    }
    #expect(Self.words(of: try #require(ended).standardErrorContent).isEmpty)
  }

  @Test(.enabled(if: isSuperuser, "needs root, to become other users"))
  func `a process that may not use the store names the file, its owner, its mode and the user`()
    async throws
  {
    let directory = try TemporaryDirectory()
    let store = SharedStore(path: directory.store)
    try store.connect()
    store.close()
    try Files.changeMode(directory.file("state"), to: 0o755)
    let ended = await #expect(
      processExitsWith: .success, observing: [\.standardErrorContent]
    ) { [path = directory.store as String] in
      try become(user: 65_534, group: 65_534)
      try Self.callWithoutRights(path)
    }
    let lines = Self.words(of: try #require(ended).standardErrorContent)
    #expect(lines.count == 1, "\(lines)")
    #expect(
      lines.first?.contains(": it belongs to root, mode 0600, and this process runs as nobody:")
        == true, "\(lines)")
  }
}
