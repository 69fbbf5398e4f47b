import BreakerStore
import SharedBreaker
import TestSupport
import Testing

/// Breakers that are restored from a backup.
@Suite struct RestoreTests {
  @Test func `restored breakers are one transaction to a process that reads changes`() throws {
    let stage = try Stage()
    let idle = SQLiteStorage(path: stage.store, clock: stage.clock.clock, program: "idle")
    try idle.open(mayCreate: true)
    let before = try idle.changes(since: nil)
    let backups = (0..<3).map { BreakerBackup(name: "breaker \($0)") }
    try stage.sharedStore().restore(backups, replacing: false)
    let after = try idle.changes(since: before.revision)
    #expect(after.continuity == before.continuity)
    #expect(after.revision == before.revision + 1)
    #expect(Set(after.breakers.map(\.name)) == Set(backups.map(\.name)))
  }

  @Test func `a restore that would replace breakers names them and changes nothing`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    try store.breaker("a").trip()
    try store.breaker("b").trip()
    let backups = ["new", "a", "b"].map { BreakerBackup(name: $0) }
    let error = #expect(throws: BreakerError.self) {
      try store.restore(backups, replacing: false)
    }
    #expect(error == .alreadyExist(names: ["a", "b"]))
    #expect(
      error?.description.hasPrefix("nothing was restored, because a and 1 other exist") == true)
    #expect(try store.names() == ["a", "b"])
    #expect(try store.breaker("a").state == .open)
    try store.restore(backups, replacing: true)
    #expect(try store.names() == ["a", "b", "new"])
    #expect(try store.breaker("a").state == .closed)
  }

  @Test func `restored breakers have what the library would have written`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    var backup = BreakerBackup(name: "api")
    backup.codePolicy = " probes=2   open-for=60s max-failures=3"
    backup.operatorPolicy = "probes=4  open-for=5m"
    backup.mode = .forcedOpen
    backup.modeSetBy = String(repeating: "x", count: 300)
    try store.restore([backup], replacing: false)
    _ = try store.breaker(
      "api", policy: BreakerPolicy(maxFailures: 3, openFor: .seconds(60), probes: 2))
    let words = try Database.rows(
      stage.store, "SELECT code_policy, operator_policy, length(mode_set_by) FROM breaker")
    #expect(words == [["max-failures=3 open-for=1m probes=2", "open-for=5m probes=4", "255"]])
    // Code that declares the same finds what it would have written itself.
    #expect(try store.history(of: "api").allSatisfy { $0.reason != "declared by code" })
  }

  @Test func `a breaker is not restored into a mode whose time is over`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    var backup = BreakerBackup(name: "api")
    backup.mode = .forcedOpen
    backup.modeFor = .zero
    backup.modeReason = "long ago"
    try store.restore([backup], replacing: false)
    #expect(try store.snapshot(of: "api")?.mode == .automatic)
    #expect(try store.history(of: "api").allSatisfy { $0.reason != "long ago" })
    #expect(try store.breaker("api").run { 42 } == 42)
  }

  @Test func `a restore that ends a mode does not record one whose time is over`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    try store.breaker("api").force(.forcedClosed)
    var backup = BreakerBackup(name: "api")
    backup.mode = .forcedOpen
    backup.modeFor = .zero
    backup.modeReason = "long ago"
    try store.restore([backup], replacing: true)
    #expect(try store.snapshot(of: "api")?.mode == .automatic)
    #expect(try store.history(of: "api").allSatisfy { $0.reason != "long ago" })
  }

  @Test func `a restore that changes nothing leaves no trace`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    try store.breaker("api").overridePolicy(set: [.probes: "2"])
    let backup = try #require(try store.snapshot(of: "api")).backup
    let before = try store.history(of: "api")
    try store.restore([backup], replacing: true)
    #expect(try store.history(of: "api") == before)
  }

  @Test
  func `an open breaker that is restored over an open one changes only its open time`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    try store.breaker("api").trip()
    let before = try #require(try store.snapshot(of: "api"))
    stage.clock.advance(by: .seconds(10))
    var backup = before.backup
    backup.openFor = .seconds(300)
    try store.restore([backup], replacing: true)
    let after = try #require(try store.snapshot(of: "api"))
    #expect(after.openEndsIn == .seconds(300))
    #expect(after.trips == 1)
    #expect(after.generation == before.generation)
    #expect(after.openedAt == before.openedAt)
    let entry = try #require(try store.history(of: "api").last)
    #expect(
      [entry.change.wireKind, entry.change.wireFrom, entry.change.wireTo, entry.reason] == [
        "extension", "open", "extended", "restored",
      ])
  }

  @Test func `a restore that changes states tells the observer of each`() throws {
    let stage = try Stage()
    let told = Guarded<[String]>([])
    let options = StoreOptions(clock: stage.clock.clock) { event in
      guard case .transition(let name, let from, let to, let reason) = event else { return }
      told.withLock { $0.append("\(name) \(from.wireName)>\(to.wireName) \(reason)") }
    }
    var open = BreakerBackup(name: "open")
    open.state = .open
    open.openFor = .seconds(30)
    let store = SharedStore(path: stage.store, options: options)
    try store.restore([open, BreakerBackup(name: "closed")], replacing: false)
    #expect(told.withLock { $0 } == ["open closed>open restored"])
  }
}
