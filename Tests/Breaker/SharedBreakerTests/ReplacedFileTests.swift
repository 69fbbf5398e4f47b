import Glibc
import SharedBreaker
import TestSupport
import Testing

/// A store that another file replaces while processes use it.
@Suite struct ReplacedFileTests {
  enum Change: CaseIterable {
    case deleted
    case deletedButNotItsLog
    case replaced
    case replacedButNotItsLog
    case restored
    case restoredButNotItsLog
    case deprivedOfItsLog
  }

  private static let parts = ["", "-wal", "-shm"]

  /// Another store, whose breaker is forced open, all in one file.
  private func makeOther(on stage: Stage) throws -> String {
    let path = stage.directory.file("other.db")
    let puppet = try Puppet(on: stage, store: path)
    #expect(try puppet.ask("force forced_open") == "ok")
    puppet.kill()
    // Its revisions are ahead of those of the store that it replaces.
    let others = (0..<50).map { "('other \($0)')" }.joined(separator: ", ")
    try Database.rows(path, "INSERT INTO breaker (name) VALUES \(others)")
    try Database.rows(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    return path
  }

  private func copy(of stage: Stage) -> String { stage.directory.file("copy.db") }

  /// Keeps a copy of the store as it is before anything has happened.
  private func makeCopy(of stage: Stage) throws {
    try Database.rows(stage.store, "PRAGMA wal_checkpoint(TRUNCATE)")
    try Files.write(copy(of: stage), try Files.read(stage.store))
  }

  private func change(_ stage: Stage, _ change: Change) throws {
    switch change {
    case .deleted:
      for part in Self.parts { Files.removeAll(stage.store + part) }
    case .deletedButNotItsLog:
      Files.removeAll(stage.store)
    case .replaced:
      let other = try makeOther(on: stage)
      for part in ["-wal", "-shm"] { Files.removeAll(stage.store + part) }
      try Files.rename(other, to: stage.store)
    case .replacedButNotItsLog:
      try Files.rename(try makeOther(on: stage), to: stage.store)
    case .restored:
      for part in ["-wal", "-shm"] { Files.removeAll(stage.store + part) }
      try Files.rename(copy(of: stage), to: stage.store)
    case .restoredButNotItsLog:
      try Files.rename(copy(of: stage), to: stage.store)
    case .deprivedOfItsLog:
      for part in ["-wal", "-shm"] { Files.removeAll(stage.store + part) }
    }
  }

  @Test(.timeLimit(.minutes(60)), arguments: Change.allCases, [true, false])
  func `all processes notice a replaced store within a second and agree on the new one`(
    change: Change, isAtOnce: Bool
  ) throws {
    let stage = try Stage()
    let puppets = try stage.puppets(6, "max-failures=3 open-for=30s")
    try makeCopy(of: stage)
    #expect(try puppets[0].ask("trip") == "ok")
    #expect(try puppets.ask("acquire").count("rejected") == 6)
    try self.change(stage, change)
    stage.clock.advance(by: .seconds(1))
    let isForced = change == .replaced || change == .replacedButNotItsLog
    // The first process to notice opens the new file while all others still have the old one open.
    let answers =
      try isAtOnce ? puppets.ask("run ok") : puppets.map { try $0.ask("run ok") }
    #expect(answers.count(isForced ? "rejected" : "ok") == 6, "\(answers)")
    #expect(try puppets.ask("state").count("closed") == 6)

    // They share the new one as they shared the old one.
    for puppet in puppets { try puppet.ask("health") }
    #expect(try puppets[5].ask("force automatic") == "ok")
    #expect(try puppets[0].ask("failures 3") == "failed 3 rejected 0")
    #expect(try puppets.ask("acquire").count("rejected") == 6)
    #expect(try puppets.ask("health").count("connected") == 6)
    #expect(try puppets[3].ask("reset") == "ok")
    #expect(try puppets.ask("run ok").count("ok") == 6)
    #expect(try Database.integrity(stage.store) == "ok")
    #expect(try Database.value(stage.store, "SELECT trips FROM breaker WHERE name = 'api'") == "1")
  }

  @Test(.timeLimit(.minutes(60)))
  func `processes that only read notice a replaced store too`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-failures=3 open-for=30s")
    #expect(try puppets[0].ask("trip") == "ok")
    #expect(try puppets.ask("state") == ["open", "open"])
    try change(stage, .deleted)
    stage.clock.advance(by: .seconds(1))
    #expect(try puppets[0].ask("state") == "closed")
    #expect(try puppets[1].ask("snapshot").hasPrefix("closed automatic permits=true"))
  }

  /// Waits until the latest change of a directory is so old that no other can have its time.
  private func waitUntilChangesShow(in directory: String) throws {
    var status = stat()
    var now = timespec()
    repeat {
      usleep(10_000)
      try #require(unsafe stat(directory, &status) == 0)
      unsafe clock_gettime(CLOCK_REALTIME, &now)
    } while now.tv_sec - status.st_ctim.tv_sec < (status.st_ctim.tv_nsec == 0 ? 4 : 2)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a replaced store is noticed even if the times of its directory are put back`() throws {
    let stage = try Stage()
    let puppet = try stage.puppets(1, "max-failures=3 open-for=30s")[0]
    try Database.rows(stage.store, "PRAGMA wal_checkpoint(TRUNCATE)")
    let copy = stage.directory.file("copy.db")
    try Files.write(copy, try Files.read(stage.store))
    #expect(try puppet.ask("trip") == "ok")
    let folder = stage.directory.file("state")
    try waitUntilChangesShow(in: folder)
    stage.clock.advance(by: .seconds(1))
    #expect(try puppet.ask("acquire").hasPrefix("rejected"))

    var times = stat()
    #expect(unsafe stat(folder, &times) == 0)
    for part in ["-wal", "-shm"] { Files.removeAll(stage.store + part) }
    try Files.rename(copy, to: stage.store)
    #expect(unsafe utimensat(AT_FDCWD, folder, [times.st_atim, times.st_mtim], 0) == 0)
    stage.clock.advance(by: .seconds(1))
    #expect(try puppet.ask("run ok") == "ok 42")
    #expect(try puppet.ask("state") == "closed")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a replaced store is noticed even if only a link on its path leads elsewhere`() throws {
    let stage = try Stage()
    for folder in ["first", "second"] { try Files.makeDirectory(stage.directory.file(folder)) }
    let link = stage.directory.file("state")
    try Files.link(link, to: stage.directory.file("first"))
    let puppet = try stage.puppets(1, "max-failures=3 open-for=30s")[0]
    #expect(try puppet.ask("run ok") == "ok 42")
    let other = try Puppet(on: stage, store: stage.directory.file("second/breakers.db"))
    #expect(try other.ask("force forced_open") == "ok")

    try Files.link(link + ".new", to: stage.directory.file("second"))
    try Files.rename(link + ".new", to: link)
    stage.clock.advance(by: .seconds(1))
    #expect(try puppet.ask("acquire").hasPrefix("rejected"))
    #expect(try other.ask("force automatic") == "ok")
    #expect(try puppet.ask("run ok") == "ok 42")
    // Nothing in the first directory was moved.
    #expect(!Files.names(in: stage.directory.file("first")).contains { $0.hasSuffix(".orphan") })
  }

  @Test(.timeLimit(.minutes(60)))
  func `a process that only reads a store notices within a second that it was replaced`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    try store.breaker("api").trip()
    #expect(try store.snapshots().map(\.name) == ["api"])
    for part in ["", "-wal", "-shm"] { Files.removeAll(stage.store + part) }
    try stage.puppet().ask("force forced_open")
    stage.clock.advance(by: .seconds(1))
    #expect(try store.snapshot(of: "api")?.mode == .forcedOpen)
    for part in ["", "-wal", "-shm"] { Files.removeAll(stage.store + part) }
    stage.clock.advance(by: .seconds(1))
    #expect(try store.snapshots().isEmpty)
    for part in ["", "-wal", "-shm"] { Files.removeAll(stage.store + part) }
    try stage.puppet().ask("trip")
    stage.clock.advance(by: .seconds(1))
    #expect(try store.history().count == 1)
  }
}
