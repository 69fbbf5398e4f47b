import BreakerStore
import Glibc
import TestSupport
import Testing

@Suite struct FullDiskTests {
  @Test(
    .timeLimit(.minutes(60)), .enabled(if: SmallDisk.isPermitted, "needs root, to mount a tmpfs"))
  func `a full disk never gets in the way, and the store is used again after it`() throws {
    let stage = try Stage()
    let disk = try SmallDisk(at: stage.directory.file("state"), kilobytes: 512)
    let puppets = try stage.puppets(2, "max-failures=1000 open-for=30s")
    #expect(try puppets.ask("run fail") == ["failed", "failed"])
    // As long as a process reads from the log, it cannot start over.
    var reader: Holder? = try Holder(stage.store, "BEGIN; SELECT * FROM breaker")
    try disk.fill()
    // The log has no room for so many, but each caller gets the result of its own work.
    #expect(try puppets.ask("failures 200") == Array(repeating: "failed 200 rejected 0", count: 2))
    #expect(try puppets[0].ask("health").hasPrefix("unavailable diskFull "))
    #expect(try puppets[1].ask("health").hasPrefix("unavailable diskFull "))
    #expect(try puppets[0].ask("trip").hasPrefix("store diskFull "))
    #expect(try puppets.ask("events") == ["unavailable", "unavailable"])
    for round in 0..<rounds(50) {
      // Both try the store again at once, so each holds it while the other one does. The write that
      // proves that there is room again may just fit, but not what follows.
      stage.clock.advance(by: .seconds(60))
      #expect(try puppets.ask("run ok") == ["ok 42", "ok 42"])
      #expect(
        try puppets.ask("failures 200") == Array(repeating: "failed 200 rejected 0", count: 2))
      let health = try puppets.ask("health")
      #expect(
        health.allSatisfy { $0.hasPrefix("unavailable diskFull ") }, "round \(round): \(health)")
    }
    // A process that starts now has never seen the store.
    let late = try stage.puppet()
    #expect(try late.ask("run ok") == "ok 42")
    #expect(try late.ask("run fail") == "failed")

    disk.makeRoom()
    reader = nil
    #expect(reader == nil)
    stage.clock.advance(by: .seconds(1))
    let all = puppets + [late]
    // One by one: a process that comes back to a store waits for others only briefly.
    for puppet in all { #expect(try puppet.ask("run ok") == "ok 42") }
    #expect(try all.ask("health") == ["connected", "connected", "connected"])
    #expect(try puppets.ask("events").allSatisfy { $0.hasSuffix("unavailable available") })
    #expect(try puppets[0].ask("trip") == "ok")
    #expect(try all.ask("state") == ["open", "open", "open"])
    #expect(try Database.integrity(stage.store) == "ok")
  }

  @Test(
    .timeLimit(.minutes(60)), .enabled(if: SmallDisk.isPermitted, "needs root, to mount a tmpfs"))
  func `a store on a full disk goes on in the room that it has`() throws {
    let stage = try Stage()
    let disk = try SmallDisk(at: stage.directory.file("state"), kilobytes: 512)
    // Alone, because the log cannot start over in the moment in which another process reads.
    let puppet = try stage.puppets(1, "max-failures=1000 open-for=30s")[0]
    #expect(try puppet.ask("failures 20") == "failed 20 rejected 0")
    try disk.fill()
    #expect(try puppet.ask("failures 500") == "failed 500 rejected 0")
    #expect(try puppet.ask("health") == "connected")
    #expect(try puppet.ask("events") == "")
    #expect(try Database.value(stage.store, "SELECT failures FROM breaker") == "520")
    #expect(try Database.integrity(stage.store) == "ok")
  }

  @Test(
    .timeLimit(.minutes(60)), .enabled(if: SmallDisk.isPermitted, "needs root, to mount a tmpfs"))
  func `reads that overlap do not let the log take a small disk`() throws {
    let stage = try Stage()
    let disk = try SmallDisk(at: stage.directory.file("state"), kilobytes: 2_048)
    let puppet = try stage.puppets(1, "max-failures=1000000 open-for=30s")[0]
    #expect(try puppet.ask("failures 20") == "failed 20 rejected 0")
    let isOver = Guarded(false)
    let readers = Threads()
    for number in 0..<3 {
      readers.start { [path = stage.store] in
        while !isOver.withLock({ $0 }) {
          let reader = try? Holder(path, "BEGIN; SELECT * FROM breaker")
          usleep(UInt32(3_000 + 1_000 * number))
          withExtendedLifetime(reader) {}
        }
      }
    }
    defer {
      isOver.withLock { $0 = true }
      readers.join()
    }
    for _ in 0..<40 { #expect(try puppet.ask("failures 100") == "failed 100 rejected 0") }
    #expect(try puppet.ask("health") == "connected", "\(disk.use)")
    #expect(try puppet.ask("events") == "", "\(disk.use)")
    // A wait for the readers follows each eighth of the disk, from a quarter of it on; without one, the log is longer.
    let log = try Files.read(stage.store + "-wal").count
    #expect(log < 5 << 18, "\(log) bytes: \(disk.use)")
  }

  @Test(
    .timeLimit(.minutes(60)), .enabled(if: SmallDisk.isPermitted, "needs root, to mount a tmpfs"))
  func `a disk without room for a new store is reported as full`() throws {
    let stage = try Stage()
    let disk = try SmallDisk(at: stage.directory.file("state"), kilobytes: 64)
    try disk.fill()
    let puppet = try stage.puppet()
    #expect(try puppet.ask("run ok") == "ok 42")
    #expect(try puppet.ask("run fail") == "failed")
    #expect(try puppet.ask("health").hasPrefix("unavailable diskFull "))
  }
}
