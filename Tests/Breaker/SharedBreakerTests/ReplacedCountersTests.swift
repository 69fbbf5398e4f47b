import TestSupport
import Testing

/// Other things in the place of the counters.
@Suite struct ReplacedCountersTests {
  static let policy = "failure-rate=50% window=10s min-calls=4 open-for=30s"

  private func counts(_ puppet: Puppet) throws -> [Int] {
    try puppet.ask("counts").split(separator: " ").compactMap { Int($0) }
  }

  enum Replacement: String, CaseIterable {
    case nothing, garbage, emptyFile, halfAHeader, halfASegment, otherLayout, otherStore, directory
    case symbolicLink, fifo
  }

  /// Puts something in the place of the counters of a store.
  private func put(_ replacement: Replacement, on stage: Stage) throws {
    let path = stage.store + "-counters"
    let whole = try Files.read(path)
    Files.removeAll(path)
    switch replacement {
    case .nothing: break
    case .garbage: try Files.write(path, (0..<300_000).map { UInt8(truncatingIfNeeded: $0 * 7) })
    case .emptyFile: try Files.write(path, [])
    case .halfAHeader: try Files.write(path, Array(whole[..<20]))
    case .halfASegment: try Files.write(path, Array(whole[..<65_600]))
    case .otherLayout:
      try Files.write(path, whole)
      try CounterWords(ofStore: stage.store).setHeader(word: 1, to: 99)
    case .otherStore:
      let other = try Stage()
      try other.puppets(1, Self.policy)[0].ask("successes 3")
      try Files.write(path, Files.read(other.store + "-counters"))
    case .directory: try Files.makeDirectory(path)
    case .symbolicLink:
      let target = stage.directory.file("target")
      try Files.write(target, [1, 2, 3])
      try Files.link(path, to: target)
    case .fifo: try Files.makeFIFO(path)
    }
  }

  @Test(.timeLimit(.minutes(60)), arguments: Replacement.allCases)
  func `running and starting processes cope with anything in place of the counters`(
    replacement: Replacement
  ) throws {
    let stage = try Stage()
    let running = try stage.puppets(2, Self.policy)
    try running.ask("successes 100")
    try running.ask("run fail")
    try put(replacement, on: stage)
    let late = try stage.puppets(1, Self.policy)
    let all = running + late
    for round in 0..<5 {
      #expect(try all.ask("successes 20").allSatisfy { $0 == "ok 20 rejected 0" }, "\(round)")
      #expect(try all[round % 3].ask("run fail") == "failed", "\(round)")
      #expect(try all.ask("state") == ["closed", "closed", "closed"], "\(round)")
    }
    // Once all have found each other, they count together again.
    let before = try counts(all[0])
    #expect(before[2] >= 300 - 40 && before[3] == 7, "\(before)")
    #expect(try all.ask("successes 100").count("ok") == 3)
    // No file can be created in the place of a directory, so a late process does not see all.
    let seeing = replacement == .directory ? running : all
    for puppet in seeing { #expect(try counts(puppet)[2] == before[2] + 300) }
    #expect(try all.ask("health").allSatisfy { $0 == "connected" })
    if replacement == .symbolicLink {
      #expect(try Files.read(stage.directory.file("target")) == [1, 2, 3])
    }
    // They still judge together: 4 failures in 8 calls.
    #expect(try all[0].ask("reset") == "ok")
    #expect(try all[1].ask("successes 4") == "ok 4 rejected 0")
    #expect(try all[2].ask("failures 5") == "failed 4 rejected 1")
    #expect(try all.ask("state") == ["open", "open", "open"])
  }

  @Test(.timeLimit(.minutes(60)))
  func `the totals of an earlier boot are kept, and windows start over`() throws {
    let stage = try Stage()
    var puppets = try stage.puppets(2, Self.policy)
    try puppets.ask("successes 100")
    #expect(try puppets[0].ask("run fail") == "failed")
    try puppets.ask("successes 100")
    for puppet in puppets { puppet.kill() }
    stage.clock.reboot(after: .seconds(5))
    puppets = try stage.puppets(2, Self.policy)
    #expect(try counts(puppets[0]) == [0, 0, 400, 1, 0])
    try puppets.ask("successes 50")
    for puppet in puppets { #expect(try counts(puppet)[1...] == [0, 500, 1, 0]) }
    #expect(try puppets[1].ask("failures 10") == "failed 10 rejected 0")
    #expect(try puppets[0].ask("state") == "closed")
  }

  @Test(.timeLimit(.minutes(60)))
  func `newer counters may lie beside an older copy of the store`() throws {
    let stage = try Stage()
    var puppets = try stage.puppets(2, Self.policy)
    try puppets.ask("successes 10")
    try puppets[0].ask("run fail")
    try puppets[0].ask("successes 1")
    for puppet in puppets { puppet.kill() }
    try Database.rows(stage.store, "PRAGMA wal_checkpoint(TRUNCATE)")
    let copy = try Files.read(stage.store)
    puppets = try stage.puppets(2, Self.policy)
    try puppets.ask("successes 100")
    try puppets.ask("failures 3")
    for puppet in puppets { puppet.kill() }
    for suffix in ["", "-wal", "-shm"] { Files.removeAll(stage.store + suffix) }
    try Files.write(stage.store, copy)
    puppets = try stage.puppets(2, Self.policy)
    // The successes were counted; the failures are gone with the newer file.
    #expect(try counts(puppets[0])[2...] == [221, 1, 0])
    try puppets.ask("successes 100")
    #expect(try puppets[1].ask("run fail") == "failed")
    #expect(try puppets.ask("state") == ["closed", "closed"])
    for puppet in puppets { #expect(try counts(puppet)[2...] == [421, 2, 0]) }
  }
}
