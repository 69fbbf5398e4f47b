import SharedBreaker
import TestSupport
import Testing

/// Rights and room for the file of the counters.
@Suite struct CounterAccessTests {
  static let policy = "failure-rate=50% window=10s min-calls=4 open-for=30s"

  private func counts(_ puppet: Puppet) throws -> [Int] {
    try puppet.ask("counts").split(separator: " ").compactMap { Int($0) }
  }

  @Test(.timeLimit(.minutes(60)), .enabled(if: isSuperuser, "needs root, to give files away"))
  func `the counter file belongs to the owner of the store even if root creates it`() throws {
    let stage = try Stage()
    let directory = stage.directory.file("state")
    try Files.makeDirectory(directory, mode: 0o700)
    try Files.changeOwner(directory, to: 65_534)
    let owner = try stage.puppets(1, Self.policy, options: ["user=nobody"])[0]
    try owner.ask("successes 10")
    let store = try Files.permissions(of: stage.store)
    #expect(store.user == 65_534)
    #expect(try Files.permissions(of: stage.store + "-counters") == store)
    Files.removeAll(stage.store + "-counters")
    let root = try stage.puppets(1, Self.policy)[0]
    try root.ask("successes 10")
    #expect(try Files.permissions(of: stage.store + "-counters") == store)
    try [owner, root].ask("successes 100")
    #expect(try counts(owner) == counts(root))
  }

  @Test(.timeLimit(.minutes(60)), arguments: [true, false], 0...12)
  func `a process that lacked descriptors when it opened its store counts with the others`(
    isFirst: Bool, descriptors: Int
  ) throws {
    let stage = try Stage()
    let options =
      isFirst ? [["descriptors=\(descriptors)"], []] : [[], ["descriptors=\(descriptors)"]]
    var puppets: [Puppet] = []
    for options in options { puppets += try stage.puppets(1, "", options: options) }
    #expect(
      try puppets.ask("successes 100") == ["ok 100 rejected 0", "ok 100 rejected 0"])
    for puppet in puppets { puppet.kill() }
    #expect(try stage.sharedStore().snapshot(of: "api")?.totals.successes == 200)
  }

  @Test(.timeLimit(.minutes(60)), arguments: 0...12)
  func `a process that lacks descriptors after a reboot drops no totals of the boot before`(
    descriptors: Int
  ) throws {
    let stage = try Stage()
    let before = try stage.puppets(1, "")[0]
    #expect(try before.ask("successes 100") == "ok 100 rejected 0")
    before.kill()
    stage.clock.reboot()
    let after = try stage.puppets(1, "", options: ["descriptors=\(descriptors)"])[0]
    #expect(try after.ask("successes 100") == "ok 100 rejected 0")
    after.kill()
    #expect(try stage.sharedStore().snapshot(of: "api")?.totals.successes == 200)
  }

  @Test(.timeLimit(.minutes(60)), .enabled(if: isSuperuser, "needs root, to become another user"))
  func `processes do without a counter file that they can neither use nor create`() throws {
    let stage = try Stage()
    let directory = stage.directory.file("state")
    try Files.makeDirectory(directory, mode: 0o755)
    let maker = try stage.puppets(1, Self.policy)[0]
    try maker.ask("successes 10")
    for suffix in ["", "-wal", "-shm"] { try Files.changeMode(stage.store + suffix, to: 0o666) }
    try Files.changeMode(stage.store + "-counters", to: 0)
    maker.kill()
    let others = try stage.puppets(3, Self.policy, options: ["user=nobody"])
    for _ in 0..<5 {
      #expect(try others.ask("successes 20").allSatisfy { $0 == "ok 20 rejected 0" })
      #expect(try others.ask("run fail") == ["failed", "failed", "failed"])
    }
    #expect(try others.ask("state") == ["closed", "closed", "closed"])
    #expect(try others.ask("health") == ["connected", "connected", "connected"])
    let seen = try counts(others[0])
    #expect(seen[2] >= 300 && seen[3] == 15)
    #expect(try counts(others[1]) == seen)
    // They still judge together.
    #expect(try others[0].ask("reset") == "ok")
    #expect(try others[1].ask("successes 4") == "ok 4 rejected 0")
    #expect(try others[2].ask("failures 5") == "failed 4 rejected 1")
    // A process that can use the file takes in what had been counted there.
    let root = try stage.puppet()
    #expect(try counts(root)[2] == 314)
  }

  @Test(
    .timeLimit(.minutes(60)), .enabled(if: SmallDisk.isPermitted, "needs root, to mount a tmpfs"))
  func `processes do without a counter file while the disk has no room for it`() throws {
    let stage = try Stage()
    let disk = try SmallDisk(at: stage.directory.file("state"), kilobytes: 2_048)
    let first = try stage.puppets(1, Self.policy)[0]
    try first.ask("successes 10")
    Files.removeAll(stage.store + "-counters")
    try disk.fill()
    // The process that had the counters goes on with them; one that starts now has none.
    let late = try stage.puppets(1, Self.policy)[0]
    #expect(try late.ask("successes 50") == "ok 50 rejected 0")
    #expect(try first.ask("successes 50") == "ok 50 rejected 0")
    #expect(try [first, late].ask("run fail") == ["failed", "failed"])
    #expect(try [first, late].ask("state").allSatisfy { $0 == "closed" })
    disk.makeRoom()
    stage.clock.advance(by: .seconds(2))
    let all = [first, late] + (try stage.puppets(1, Self.policy))
    // One by one: a process that comes back to a store waits for others only briefly.
    for puppet in all { #expect(try puppet.ask("successes 50") == "ok 50 rejected 0") }
    for _ in 0..<2 { #expect(try all.ask("successes 50").allSatisfy { $0 == "ok 50 rejected 0" }) }
    #expect(try all.ask("state") == ["closed", "closed", "closed"])
    #expect(try all.ask("health") == ["connected", "connected", "connected"])
    #expect(Files.exists(stage.store + "-counters"))
    // A process that found no room looks again only after a while, but writes what it counts.
    let before = try counts(all[0])
    try all.ask("successes 20")
    for puppet in [all[0], all[2]] { #expect(try counts(puppet)[2] == before[2] + 60) }
  }
}
