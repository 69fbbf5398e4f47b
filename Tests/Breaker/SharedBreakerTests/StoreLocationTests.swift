import Glibc
import SharedBreaker
import TestSupport
import Testing

/// The path of a store: how long it may be, and from where a relative one is resolved.
@Suite struct StoreLocationTests {
  /// A path of `length` bytes, whose directories do not exist yet.
  private func path(_ length: Int, in directory: TemporaryDirectory) -> String {
    var path = directory.path
    while length - path.utf8.count > 102 { path += "/" + String(repeating: "d", count: 99) }
    return path + "/" + String(repeating: "f", count: length - path.utf8.count - 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a store works at a path of 480 bytes`() throws {
    let stage = try Stage()
    let path = path(480, in: stage.directory)
    #expect(path.utf8.count == 480)
    let puppets = try (0..<2).map { _ in try Puppet(on: stage, store: path) }
    #expect(try puppets[0].ask("trip") == "ok")
    #expect(try puppets[1].ask("acquire").hasPrefix("rejected open"))
    #expect(Files.exists(path + "-counters") && Files.exists(path + "-lock"))
    puppets.forEach { $0.kill() }
    try Database.rows(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    try Files.overwrite(path, Array(repeating: 0x5A, count: 4_000))
    let store = SharedStore(path: path, options: StoreOptions(clock: stage.clock.clock))
    #expect(try store.examine().contains { !$0.isWell })
    #expect(try store.repair().allSatisfy(\.isWell))
    try store.connectToExisting()
  }

  @Test(.timeLimit(.minutes(60)), arguments: [481, 505, 513, 700, 5_000])
  func `a path longer than 480 bytes is refused with the limit, and no directory is created`(
    length: Int
  ) throws {
    let directory = try TemporaryDirectory()
    let path = path(length, in: directory)
    let store = SharedStore(path: path)
    let words = ": its path has \(length) bytes, and 480 is the limit: use a shorter path"
    for use in ["connect", "connect to existing", "examine", "repair"] {
      let error = #expect(throws: StoreError.self) {
        switch use {
        case "connect": try store.connect()
        case "connect to existing": try store.connectToExisting()
        case "examine": _ = try store.examine()
        default: _ = try store.repair()
        }
      }
      #expect(error?.description.hasSuffix(words) == true, "\(use): \(error as Any)")
    }
    // A broken store never stops calls.
    #expect(try store.breaker("api").run { 42 } == 42)
    #expect(try Files.all(in: directory.path).isEmpty)
  }

  @Test func `the length of a relative path is counted from the root`() async throws {
    let directory = try TemporaryDirectory()
    let path = path(478, in: directory)
    await #expect(processExitsWith: .success) {
      [directory = directory.path as String, path = path as String] in
      let folder = String(path.prefix(path.count - 103))
      let code = Child.shell("mkdir -p '\(folder)'")
      precondition(code == 0)
      precondition(unsafe chdir(folder) == 0)
      let rest = String(path.suffix(102))
      try SharedStore(path: rest).connect()
      let error = #expect(throws: StoreError.self) {
        try SharedStore(path: rest + "abc").connect()
      }
      let words = error?.description ?? ""
      precondition(words.contains("its path has 481 bytes"), words)
      precondition(words.contains(directory), words)
    }
  }

  @Test func `the length of a path is that of the place to which its links lead`() throws {
    let directory = try TemporaryDirectory()
    let deep = path(470, in: directory)
    #expect(Child.shell("mkdir -p '\(deep)'") == 0)
    try Files.link(directory.file("short"), to: deep)
    let error = #expect(throws: StoreError.self) {
      try SharedStore(path: directory.file("short/breakers.db")).connect()
    }
    #expect(error?.description.contains("its path has 482 bytes") == true, "\(error as Any)")
    // The path as it is given may be as long as the system allows.
    let way = directory.path + String(repeating: "/.", count: 300) + "/breakers.db"
    try SharedStore(path: way).connect()
  }

  @Test func `the file name of a store may have 200 bytes and no more`() throws {
    let directory = try TemporaryDirectory()
    let name = String(repeating: "n", count: 200)
    let store = SharedStore(path: directory.file(name))
    try store.breaker("api").trip()
    #expect(Files.exists(directory.file(name + "-counters")))
    let error = #expect(throws: StoreError.self) {
      try SharedStore(path: directory.file(name + "n")).connect()
    }
    #expect(error?.description.contains("its file name has 201 bytes") == true, "\(error as Any)")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a relative path is resolved from the directory where the store was named`() async {
    await #expect(processExitsWith: .success) { try useFromElsewhere() }
  }
}

private func useFromElsewhere() throws {
  let stage = try Stage()
  precondition(unsafe chdir(stage.directory.path) == 0)
  let store = SharedStore(path: "breakers.db", options: StoreOptions(clock: stage.clock.clock))
  try store.breaker("api").trip()
  try Files.makeDirectory(stage.directory.file("elsewhere"))
  precondition(unsafe chdir("elsewhere") == 0)
  store.close()
  let state = try store.breaker("api").state
  precondition(state == .open)
  precondition(!Files.exists("breakers.db"))
}
