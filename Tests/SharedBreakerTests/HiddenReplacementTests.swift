import Glibc
import TestSupport
import Testing

/// A replaced store whose replacement is hard to see.
@Suite struct HiddenReplacementTests {
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
}
