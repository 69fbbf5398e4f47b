import SharedBreaker
import TestShim
import TestSupport
import Testing

@Suite struct StoreTroubleTests {
  @Test(.timeLimit(.minutes(60)))
  func `a store error is one line, whatever the file contains`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    try store.connect()
    store.close()
    try Database.rows(
      stage.store,
      """
      PRAGMA writable_schema = ON;
      INSERT INTO sqlite_schema VALUES
        ('table', 'a' || char(10, 27) || 'b', 'x', 2, 'CREATE nonsense');
      """)
    let error = try #require(throws: StoreError.self) { try store.connect() }
    #expect(error.kind == .corrupt)
    #expect(error.description.contains("\\u{a}\\u{1b}"))
    #expect(error.description.unicodeScalars.allSatisfy { $0.value >= 32 })
  }

  @Test(.timeLimit(.minutes(60)))
  func `an empty database file becomes a store even if it has a version`() throws {
    let stage = try Stage()
    let path = stage.directory.file("other.db")
    _ = try Holder(path, "PRAGMA user_version = 9; VACUUM")
    let store = SharedStore(path: path, options: StoreOptions(clock: stage.clock.clock))
    try store.connect()
    try store.breaker("api").trip()
    #expect(store.health == .connected)
  }

  @Test(.timeLimit(.minutes(60)), .enabled(if: isSuperuser, "needs to become another user"))
  func `a group that the user may not give is refused each time, and no store is created`() async {
    await #expect(processExitsWith: .success) { try refuseGroup() }
  }

  @Test(.timeLimit(.minutes(60)), .enabled(if: isSuperuser, "needs to become another user"))
  func `a log of another user is reported as a lack of permission`() async {
    await #expect(processExitsWith: .success) { try refuseLog() }
  }
}

private func trouble(connecting store: SharedStore) -> StoreError? {
  do throws(StoreError) {
    try store.connect()
    return nil
  } catch {
    return error
  }
}

private func refuseGroup() throws {
  let stage = try Stage()
  try Files.changeOwner(stage.directory.path, to: 65_534)
  precondition(ts_become(65_534, 65_534) == 0)
  let options = StoreOptions(mode: 0o660, group: "root", clock: stage.clock.clock)
  for _ in 0..<3 {
    let store = SharedStore(path: stage.store, options: options)
    precondition(trouble(connecting: store)?.kind == .permissionDenied)
    precondition(!Files.exists(stage.store))
  }
}

private func refuseLog() throws {
  let stage = try Stage()
  let store = stage.sharedStore()
  try store.connect()
  store.close()
  try Files.changeOwner(stage.directory.file("state"), to: 65_534)
  try Files.changeOwner(stage.store, to: 65_534)
  precondition(ts_become(65_534, 65_534) == 0)
  let told = trouble(connecting: stage.sharedStore())
  precondition(told?.kind == .permissionDenied, told?.description ?? "nothing")
}
