import Glibc
import SharedBreaker
import TestSupport
import Testing

/// A new store in the place of a group's store, which is for the users of the old one.
@Suite(.enabled(if: isSuperuser, "needs root, to give files away"))
struct GroupStoreTests {
  /// The group of puppets with `user=nobody`; `otherGroup` is one that they do not belong to.
  private static let group: UInt32 = 65_534
  private static let otherGroup: UInt32 = 54_320
  private static let parts = ["", "-wal", "-shm", "-counters", "-lock"]
  private static let policy = "max-failures=3 open-for=30s"

  private func give(_ path: String, to user: UInt32 = 0, _ group: UInt32, mode: UInt32) throws {
    guard unsafe chown(path, user, group) == 0 else { throw SupportError("chown \(path)", errno) }
    try Files.changeMode(path, to: mode)
  }

  /// A store of a group, which was created for one user and given to the group by hand.
  private func play(
    _ options: String..., owner: UInt32 = 0, group: UInt32 = group, directory mode: UInt32 = 0o770
  ) throws -> (Stage, Puppet) {
    let stage = try Stage()
    let folder = stage.directory.file("state")
    try Files.makeDirectory(folder)
    try give(folder, to: owner, group, mode: 0o700)
    let puppet = try stage.puppets(1, Self.policy, options: options)[0]
    #expect(try puppet.ask("run fail") == "failed")
    // In the order of the guide: a process sees by the directory that something has changed.
    for part in Self.parts { try give(stage.store + part, to: owner, group, mode: 0o660) }
    try give(folder, to: owner, group, mode: mode)
    return (stage, puppet)
  }

  private func isForGroup(_ path: String, _ group: UInt32 = group) throws -> Bool {
    let found = try Files.permissions(of: path)
    return found.mode == 0o660 && found.group == group
  }

  @Test(.timeLimit(.minutes(60)), arguments: [[""], parts], [true, false])
  func `a new store is for the group too, whichever running process creates it`(
    deleted: [String], isMemberFirst: Bool
  ) throws {
    let (stage, root) = try play()
    let member = try stage.puppets(1, Self.policy, options: ["user=nobody"])[0]
    // Both have seen the rights as they are now.
    stage.clock.advance(by: .seconds(1))
    for puppet in [root, member] { #expect(try puppet.ask("run ok") == "ok 42") }
    for part in deleted { Files.removeAll(stage.store + part) }
    stage.clock.advance(by: .seconds(1))
    let (first, second) = isMemberFirst ? (member, root) : (root, member)
    #expect(try first.ask("trip") == "ok")
    for part in ["", "-lock", "-counters"] {
      #expect(try isForGroup(stage.store + part), "\(part)")
    }
    #expect(try second.ask("acquire").hasPrefix("rejected open"))
    #expect(try second.ask("health") == "connected")
    #expect(try second.ask("reset") == "ok")
    #expect(try first.ask("run ok") == "ok 42")
  }

  @Test(.timeLimit(.minutes(60)), arguments: ["-lock", "-counters", "-wal"])
  func `a new store is for the group too if one of the old files is left`(left: String) throws {
    let (stage, root) = try play()
    root.kill()
    for part in Self.parts where part != left { Files.removeAll(stage.store + part) }
    #expect(try stage.puppet("user=nobody").ask("trip") == "ok")
    for part in ["", "-lock"] { #expect(try isForGroup(stage.store + part), "\(part)") }
  }

  @Test(
    .timeLimit(.minutes(60)),
    arguments: [
      (0o2770, true), (0o770, false), (0o2775, false), (0o2777, false), (0o755, false),
    ] as [(UInt32, Bool)])
  func `a new store is for the group only in a setgid directory closed to all others`(
    mode: UInt32, isForGroup: Bool
  ) throws {
    let stage = try Stage()
    let folder = stage.directory.file("state")
    try Files.makeDirectory(folder)
    try give(folder, Self.group, mode: mode)
    #expect(try stage.puppet().ask("trip") == "ok")
    #expect(try self.isForGroup(stage.store) == isForGroup)
    #expect(try Files.permissions(of: stage.store).mode == (isForGroup ? 0o660 : 0o600))
  }

  @Test(
    .timeLimit(.minutes(60)),
    arguments: [
      (65_534, 0o755, 65_534), (65_534, 0o700, 65_534), (65_534, 0o775, 0), (65_534, 0o1777, 0),
      (0, 0o755, 0),
    ] as [(UInt32, UInt32, UInt32)])
  func `a store that root makes in the directory of one other user is for that user`(
    user: UInt32, mode: UInt32, owner: UInt32
  ) throws {
    let stage = try Stage()
    let folder = stage.directory.file("state")
    try Files.makeDirectory(folder)
    try give(folder, to: user, Self.group, mode: mode)
    #expect(try stage.puppet().ask("force forced_open") == "ok")
    for part in Self.parts where Files.exists(stage.store + part) {
      let rights = try Files.permissions(of: stage.store + part)
      #expect(rights.user == owner && rights.mode == 0o600, "\(part): \(rights)")
    }
    guard user == owner, user != 0 else { return }
    let worker = try stage.puppet("user=nobody")
    #expect(try worker.ask("run ok").hasPrefix("rejected"))
    #expect(try worker.ask("health") == "connected")
  }

  @Test(.timeLimit(.minutes(60)))
  func `the doctor gives a store of root to the one other user of its directory`() throws {
    let stage = try Stage()
    let folder = stage.directory.file("state")
    try Files.makeDirectory(folder)
    let root = try stage.puppet()
    #expect(try root.ask("force forced_open") == "ok")
    root.kill()
    try give(folder, to: 65_534, Self.group, mode: 0o755)
    let store = stage.sharedStore()
    let found = try #require(try store.examine().first { $0.check == "files" })
    #expect(found.result == .warning)
    let words = "the store belongs to root, mode 600, and its directory to nobody"
    #expect(found.found.hasPrefix(words), "\(found)")
    #expect(found.means?.contains("programs of nobody cannot use the store") == true, "\(found)")
    let repaired = try store.repair()
    #expect(repaired.first { $0.check == "files" }?.isWell == true, "\(repaired)")
    for part in Self.parts where Files.exists(stage.store + part) {
      let rights = try Files.permissions(of: stage.store + part)
      #expect(rights.user == 65_534 && rights.mode == 0o600, "\(part): \(rights)")
    }
    let worker = try stage.puppet("user=nobody")
    #expect(try worker.ask("run ok").hasPrefix("rejected"))
    #expect(try worker.ask("health") == "connected")
  }

  @Test func `a new store is for its user alone in a directory with other files`() throws {
    let stage = try Stage()
    let folder = stage.directory.file("state")
    try Files.makeDirectory(folder)
    try give(folder, Self.group, mode: 0o2770)
    try Files.write(folder + "/neighbour", [])
    #expect(try stage.puppet().ask("trip") == "ok")
    #expect(try Files.permissions(of: stage.store).mode == 0o600)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a new store and its lock file have the rights that a process asks for`() throws {
    let (stage, root) = try play()
    root.kill()
    for part in Self.parts where part != "-lock" { Files.removeAll(stage.store + part) }
    let store = SharedStore(
      path: stage.store, options: StoreOptions(mode: 0o666, clock: stage.clock.clock))
    try store.connect()
    for part in ["", "-lock"] {
      #expect(try Files.permissions(of: stage.store + part).mode == 0o666, "\(part)")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a new store that lost its group is private, and the doctor repairs that`() throws {
    let (stage, puppet) = try play("user=nobody", owner: 65_534, group: Self.otherGroup)
    stage.clock.advance(by: .seconds(1))
    #expect(try puppet.ask("run ok") == "ok 42")
    Files.removeAll(stage.store)
    stage.clock.advance(by: .seconds(1))
    #expect(try puppet.ask("trip") == "ok")
    #expect(try Files.permissions(of: stage.store).mode == 0o600)

    let store = stage.sharedStore()
    let found = try #require(try store.examine().first { $0.check == "files" })
    #expect(found.result == .warning)
    #expect(found.found.contains("the store has mode 600, group nogroup"), "\(found)")
    let means = try #require(found.means)
    #expect(means.contains("is for group 54320, whose users cannot use the store"), "\(means)")
    let repaired = try store.repair()
    #expect(repaired.first { $0.check == "files" }?.isWell == true, "\(repaired)")
    for part in Self.parts {
      #expect(try isForGroup(stage.store + part, Self.otherGroup), "\(part)")
    }
  }
}
