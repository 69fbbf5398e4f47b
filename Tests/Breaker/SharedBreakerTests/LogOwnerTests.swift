import BreakerCore
import BreakerStore
import SharedBreaker
import TestSupport
import Testing

/// A log that belongs to another file, which was at the path before.
@Suite struct LogOwnerTests {
  static let policy = "max-failures=100 open-for=30s"
  static let earlier = 3

  /// A store with an earlier copy beside it, and a log with everything that has come since.
  private func stage(_ body: (Stage, [Puppet], String) throws -> Void) throws {
    let stage = try Stage()
    let running = try stage.puppets(2, Self.policy)
    try running[0].ask("failures \(Self.earlier)")
    let copy = stage.directory.file("copy")
    try Database.rows(stage.store, "PRAGMA wal_checkpoint(TRUNCATE)")
    try Files.write(copy, try Files.read(stage.store))
    try running[0].ask("failures 50")
    try running[1].ask("trip")
    try body(stage, running, copy)
  }

  private func failures(_ puppet: Puppet) throws -> Int? {
    try puppet.ask("counts").split(separator: " ").compactMap { Int($0) }.dropFirst(3).first
  }

  @Test(.timeLimit(.minutes(60)))
  func `a replaced file's log is not read by a process that starts right away`() throws {
    try stage { stage, running, copy in
      try Files.rename(copy, to: stage.store)
      let late = try stage.puppet()
      #expect(try failures(late) == Self.earlier)
      #expect(try late.ask("state") == "closed")
      #expect(try Database.integrity(stage.store) == "ok")
      stage.clock.advance(by: .seconds(2))
      for puppet in running {
        #expect(try puppet.ask("run ok") == "ok 42")
        #expect(try failures(puppet) == Self.earlier)
      }
      #expect(try late.ask("run fail") == "failed")
      #expect(try failures(running[0]) == Self.earlier + 1)
      #expect(try Database.integrity(stage.store) == "ok")
    }
  }

  @Test(.timeLimit(.minutes(60)), .enabled(if: isSuperuser, "needs root, to become another user"))
  func `a replaced file's log is not read by a process that may not set it aside`() throws {
    try stage { stage, running, copy in
      try Files.changeMode(stage.directory.file("state"), to: 0o755)
      for suffix in ["", "-wal", "-shm", "-counters", "-lock"] {
        try Files.changeMode(stage.store + suffix, to: 0o666)
      }
      try Files.changeMode(copy, to: 0o666)
      try Files.rename(copy, to: stage.store)
      let other = try stage.puppet("user=nobody")
      #expect(try other.ask("connect").contains("was replaced"))
      #expect(try other.ask("run ok") == "ok 42")
      stage.clock.advance(by: .seconds(2))
      #expect(try running[0].ask("run fail") == "failed")
      #expect(try failures(running[0]) == Self.earlier + 1)
      #expect(try failures(running[1]) == Self.earlier + 1)
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `the doctor reports a replaced file's log and sets it aside`() throws {
    try stage { stage, running, copy in
      try Files.rename(copy, to: stage.store)
      let store = stage.sharedStore()
      let found = try #require(try store.examine().first { $0.check == "log" })
      #expect(found.result == .bad)
      #expect(found.found.hasSuffix(", left by another file that was here before"))
      let repaired = try #require(try store.repair().first { $0.check == "log" })
      #expect(repaired.isWell)
      #expect(repaired.repair?.hasPrefix("done: ") == true)
      #expect(try store.snapshot(of: "api")?.totals.failures == Int64(Self.earlier))
      withExtendedLifetime(running) {}
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `another store's log is not read if all who used it were killed`() throws {
    try stage { stage, running, copy in
      for part in ["", "-wal", "-shm"] { Files.removeAll(stage.store + part) }
      stage.clock.advance(by: .seconds(2))
      try running[0].ask("failures 50")
      for puppet in running { puppet.kill() }
      try Files.rename(copy, to: stage.store)
      let late = try stage.puppet()
      #expect(try failures(late) == Self.earlier)
      #expect(try Database.integrity(stage.store) == "ok")
      #expect(Files.exists(stage.store + "-wal.orphan"))
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a log that is set aside does not replace another one`() throws {
    try stage { stage, running, copy in
      for puppet in running { puppet.kill() }
      let real = stage.directory.file("real")
      let log = try Files.read(stage.store + "-wal")
      try Files.rename(stage.store, to: real)
      // A copy that was restored once has a lineage of its own.
      let other = stage.directory.file("other.db")
      try Files.write(other, try Files.read(copy))
      let adopting = try Puppet(on: stage, store: other)
      try adopting.ask("failures 1")
      adopting.kill()
      try Database.rows(other, "PRAGMA wal_checkpoint(TRUNCATE)")
      try Files.rename(other, to: stage.store)
      let late = try stage.puppet()
      try late.ask("failures 7")
      late.kill()
      try Files.rename(real, to: stage.store)
      #expect(try failures(try stage.puppet()) != nil)
      #expect(try Files.read(stage.store + "-wal.orphan") == log)
      #expect(Files.exists(stage.store + "-wal.orphan-2"))
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `an adopted copy's log is not read with a copy that came before it`() throws {
    try stage { stage, running, copy in
      let first = try Files.read(copy)
      try Files.rename(copy, to: stage.store)
      stage.clock.advance(by: .seconds(2))
      try running[0].ask("failures 50")
      let late = try stage.puppet()
      try late.ask("failures 5")
      for puppet in running + [late] { puppet.kill() }
      try Files.write(copy, first)
      try Files.rename(copy, to: stage.store)
      #expect(try failures(try stage.puppet()) == Self.earlier)
      #expect(try Database.integrity(stage.store) == "ok")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a log is still read if its file was replaced by a copy while no process used it`() throws {
    try stage { stage, running, copy in
      for puppet in running { puppet.kill() }
      try Files.write(copy, try Files.read(stage.store))
      try Files.rename(copy, to: stage.store)
      let late = try stage.puppet()
      #expect(try failures(late) == Self.earlier + 50)
      #expect(try late.ask("state") == "open")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a log is still read if the store was moved with it`() throws {
    try stage { stage, running, copy in
      for puppet in running { puppet.kill() }
      let folder = stage.directory.file("elsewhere")
      try Files.makeDirectory(folder)
      for part in ["-counters", "-shm", "-wal", ""] {
        try Files.rename(stage.store + part, to: folder + "/breakers.db" + part)
      }
      Files.removeAll(stage.directory.file("state"))
      try Files.rename(folder, to: stage.directory.file("state"))
      let late = try stage.puppet()
      #expect(try failures(late) == Self.earlier + 50)
      #expect(try late.ask("state") == "open")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a log is still read if the store was copied with it`() throws {
    try stage { stage, running, copy in
      for puppet in running { puppet.kill() }
      let parts = try ["-counters", "-shm", "-wal", ""].map {
        ($0, try Files.read(stage.store + $0))
      }
      for (part, _) in parts { Files.removeAll(stage.store + part) }
      for (part, bytes) in parts { try Files.write(stage.store + part, bytes) }
      let late = try stage.puppet()
      #expect(try failures(late) == Self.earlier + 50)
    }
  }
}
