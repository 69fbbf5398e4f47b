import TestSupport
import Testing

/// A way in which a store cannot be used, and its remedy.
struct Trouble: Sendable, CustomTestStringConvertible {
  var testDescription: String
  var kind: String

  /// Permissions do not stop the superuser, so these puppets act as another user.
  var asNobody = false
  var cause: @Sendable (Stage) throws -> Void
  var remedy: @Sendable (Stage) throws -> Void

  static func directory(of stage: Stage) -> String { stage.directory.file("state") }

  /// Puts a good store where the trouble will be, all of it in one file.
  static func makeStore(on stage: Stage) throws {
    let puppet = try stage.puppet()
    try puppet.ask("trip")
    puppet.kill()
    try Database.rows(stage.store, "PRAGMA wal_checkpoint(TRUNCATE)")
  }

  static func makeDirectory(on stage: Stage) throws {
    try Files.makeDirectory(directory(of: stage))
  }

  static func removeStore(on stage: Stage) {
    for part in ["", "-wal", "-shm"] { Files.removeAll(stage.store + part) }
  }

  static let nobody: UInt32 = 65_534

  static let forAll: [Trouble] = [
    Trouble(
      testDescription: "a directory in its place", kind: "isDirectory",
      cause: {
        try makeDirectory(on: $0)
        try Files.makeDirectory($0.store)
      }, remedy: { removeStore(on: $0) }),
    Trouble(
      testDescription: "a file in place of its directory", kind: "notADirectory",
      cause: { try Files.write(directory(of: $0), []) },
      remedy: { Files.removeAll(directory(of: $0)) }),
    Trouble(
      testDescription: "a symbolic link in its place", kind: "isSymbolicLink",
      cause: {
        try makeDirectory(on: $0)
        try Files.link($0.store, to: $0.directory.file("elsewhere.db"))
      }, remedy: { removeStore(on: $0) }),
    Trouble(
      testDescription: "garbage", kind: "notAStore",
      cause: {
        try makeDirectory(on: $0)
        try Files.write($0.store, (0..<20_000).map { UInt8(truncatingIfNeeded: $0 &* 31 + 7) })
      }, remedy: { removeStore(on: $0) }),
    Trouble(
      testDescription: "another program's database", kind: "notAStore",
      cause: {
        try makeDirectory(on: $0)
        try Files.write($0.store, [])
        try Database.rows($0.store, "CREATE TABLE theirs (id)")
      }, remedy: { removeStore(on: $0) }),
    Trouble(
      testDescription: "a file cut short", kind: "corrupt",
      cause: {
        try makeStore(on: $0)
        try Files.truncate($0.store, to: 10_000)
      }, remedy: { removeStore(on: $0) }),
    Trouble(
      testDescription: "a newer version", kind: "newerVersion",
      cause: {
        try makeStore(on: $0)
        try Database.rows($0.store, "PRAGMA user_version = 999; UPDATE breaker SET state = 0")
      },
      remedy: {
        try Database.rows($0.store, "PRAGMA user_version = \(try Database.migrations($0.store))")
      }),
  ]

  static let forOthers: [Trouble] = [
    Trouble(
      testDescription: "a directory that it may not enter", kind: "permissionDenied",
      asNobody: true,
      cause: {
        try makeStore(on: $0)
        try Files.changeMode(directory(of: $0), to: 0o700)
      }, remedy: { try giveToNobody($0) }),
    Trouble(
      testDescription: "a directory that it may not write", kind: "permissionDenied",
      asNobody: true, cause: { try makeDirectory(on: $0) },
      remedy: { try Files.changeOwner(directory(of: $0), to: nobody) }),
    Trouble(
      testDescription: "a file that it may not read", kind: "permissionDenied", asNobody: true,
      cause: {
        try makeStore(on: $0)
        try Files.changeMode(directory(of: $0), to: 0o755)
      }, remedy: { try giveToNobody($0) }),
    Trouble(
      testDescription: "a file that it may only read", kind: "readOnly", asNobody: true,
      cause: {
        try makeStore(on: $0)
        try Files.changeMode(directory(of: $0), to: 0o755)
        try Files.changeMode($0.store, to: 0o644)
      }, remedy: { try giveToNobody($0) }),
  ]

  private static func giveToNobody(_ stage: Stage) throws {
    try Database.rows(stage.store, "DELETE FROM breaker; PRAGMA wal_checkpoint(TRUNCATE)")
    try Files.changeOwner(directory(of: stage), to: nobody)
    for part in ["", "-wal", "-shm"] where Files.exists(stage.store + part) {
      try Files.changeOwner(stage.store + part, to: nobody)
    }
  }
}

@Suite struct StoreFailureTests {
  private func check(_ trouble: Trouble) throws {
    let stage = try Stage()
    try trouble.cause(stage)
    let puppet = try trouble.asNobody ? stage.puppet("user=nobody") : stage.puppet()
    // The results of the caller's own work are unchanged.
    #expect(try puppet.ask("run ok") == "ok 42")
    #expect(try puppet.ask("run fail") == "failed")
    let health = try puppet.ask("health")
    #expect(health.hasPrefix("unavailable \(trouble.kind) "), "\(health)")
    #expect(health.contains(stage.store) || health.contains(Trouble.directory(of: stage)))
    #expect(try puppet.ask("events") == "unavailable")
    #expect(try puppet.ask("connect").hasPrefix("store \(trouble.kind) "))
    // A breaker of its own protects this process as the shared one would.
    #expect(try puppet.ask("failures 4") == "failed 4 rejected 0")
    #expect(try puppet.ask("run ok").hasPrefix("rejected open"))
    #expect(try puppet.ask("state") == "open")
    stage.clock.advance(by: .seconds(1))
    #expect(try puppet.ask("run ok").hasPrefix("rejected open"))
    #expect(try puppet.ask("events") == "unavailable alone-closed>open")

    try trouble.remedy(stage)
    stage.clock.advance(by: .seconds(1))
    #expect(try puppet.ask("run ok") == "ok 42")
    #expect(try puppet.ask("health") == "connected")
    #expect(try puppet.ask("events") == "unavailable alone-closed>open available")
    #expect(try puppet.ask("run fail") == "failed")
    #expect(try Database.value(stage.store, "SELECT failures FROM breaker") == "1")
  }

  @Test(.timeLimit(.minutes(60)), arguments: Trouble.forAll)
  func `a store that cannot be used never gets in the way, says why once, and is used again`(
    trouble: Trouble
  ) throws {
    try check(trouble)
  }

  @Test(
    .timeLimit(.minutes(60)), .enabled(if: isSuperuser, "needs root, to become another user"),
    arguments: Trouble.forOthers)
  func `a store that a user may not use never gets in the way either`(trouble: Trouble) throws {
    try check(trouble)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a store of a newer version is left as it was to the last byte`() throws {
    let stage = try Stage()
    try Trouble.makeStore(on: stage)
    try Database.rows(stage.store, "PRAGMA user_version = 999")
    let migrations = try Database.migrations(stage.store)
    let before = try Files.read(stage.store)
    let puppet = try stage.puppet()
    let answer = try puppet.ask("connect")
    #expect(answer.contains("version 999") && answer.contains("up to \(migrations)"))
    #expect(try puppet.ask("run fail") == "failed")
    stage.clock.advance(by: .seconds(1))
    #expect(try puppet.ask("run ok") == "ok 42")
    puppet.kill()
    #expect(try Files.read(stage.store) == before)
  }

  @Test(.timeLimit(.minutes(60)), arguments: ["local", "permit", "reject", "throw"])
  func `calls do what on-failure says while the store cannot be used`(action: String) throws {
    let stage = try Stage()
    try Files.write(Trouble.directory(of: stage), [])
    let puppet = try stage.puppet("on-failure=\(action)")
    switch action {
    case "local":
      #expect(try puppet.ask("failures 9") == "failed 5 rejected 4")
    case "permit":
      #expect(try puppet.ask("failures 9") == "failed 9 rejected 0")
      #expect(try puppet.ask("run ok") == "ok 42")
    case "reject":
      #expect(try puppet.ask("run ok") == "rejected closed 1000")
      #expect(try puppet.ask("acquire") == "rejected closed 1000")
    default:
      #expect(try puppet.ask("run ok").hasPrefix("store notADirectory cannot"))
      #expect(try puppet.ask("acquire").hasPrefix("store notADirectory cannot"))
    }
    #expect(try puppet.ask("trip").hasPrefix("store notADirectory"))
    let events = action == "local" ? "unavailable alone-closed>open" : "unavailable"
    #expect(try puppet.ask("events") == events)
    Files.removeAll(Trouble.directory(of: stage))
    stage.clock.advance(by: .seconds(1))
    #expect(try puppet.ask("run ok") == "ok 42")
    #expect(try puppet.ask("events") == events + " available")
    if action == "reject" { #expect(try puppet.ask("counts").hasSuffix(" 2")) }
  }

  @Test(.timeLimit(.minutes(60)))
  func `a breaker continues as it was last seen when its store can no longer be used`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-failures=2 open-for=30s")
    #expect(try puppets[0].ask("trip") == "ok")
    #expect(try puppets[1].ask("run ok").hasPrefix("rejected open"))
    Trouble.removeStore(on: stage)
    try Files.makeDirectory(stage.store)
    stage.clock.advance(by: .seconds(1))
    #expect(try puppets[1].ask("run ok") == "rejected open 29000")
    stage.clock.advance(by: .seconds(29))
    #expect(try puppets[1].ask("acquire") == "probe")
    #expect(try puppets[1].ask("acquire").hasPrefix("rejected half_open"))
    #expect(try puppets[1].ask("succeed") == "counted")
    #expect(try puppets[1].ask("run ok") == "ok 42")
    #expect(try puppets[1].ask("failures 3") == "failed 2 rejected 1")
    // The trouble is over, and both processes come back to a new store.
    Trouble.removeStore(on: stage)
    stage.clock.advance(by: .seconds(1))
    // One by one: a process that comes back to a store waits for others only briefly.
    for puppet in puppets { #expect(try puppet.ask("run ok") == "ok 42") }
    #expect(try puppets.ask("health") == ["connected", "connected"])
  }
}
