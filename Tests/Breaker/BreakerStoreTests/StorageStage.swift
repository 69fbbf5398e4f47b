@_spi(Relay) import BreakerCore
import CSQLite
import TestSupport

@testable import BreakerStore

/// Where breakers can be kept; whatever is said of a store holds in each of them.
enum StorageKind: CaseIterable {
  case file, memory
}

/// A store of one kind for one test, and a clock that the test moves.
final class StorageStage: Sendable {
  let storage: any BreakerStorage
  let clock: TestClock
  private let directory: TemporaryDirectory

  init(_ kind: StorageKind, room: Int? = nil, sharing other: StorageStage? = nil) throws {
    directory = try TemporaryDirectory()
    clock = try other?.clock ?? TestClock(path: directory.file("clock"))
    switch kind {
    case .file:
      storage = SQLiteStorage(
        path: directory.store, lockTimeout: .seconds(60), clock: clock.clock, program: "test",
        room: room)
    case .memory:
      storage = MemoryStorage(
        clock: clock.clock, program: "test", room: room,
        isGone: { ProcessTable.fate(of: $0) == .over })
    }
    try storage.open(mayCreate: true)
  }

  @discardableResult
  func step<Answer>(
    _ name: String, orCreate: Bool = true, _ body: (inout BreakerDraft) -> Answer
  ) throws -> Transacted<Answer>? {
    try storage.transact(name, orCreate: orCreate, wait: .usual, body)
  }

  /// Reports one failed call.
  func fail(_ name: String) throws {
    try step(name) { draft in
      let policy = draft.breaker.policy
      _ = draft.apply { record, now in
        record.reported(
          .failure(), for: PermitGrant(kind: .normal, generation: record.generation),
          elapsed: nil, at: now, by: nil, policy: policy, jitter: 0)
      }
    }
  }

  @discardableResult
  func hear(_ news: FleetNews..., change: (inout FleetRequest) -> Void = { _ in }) throws
    -> FleetChanges
  {
    var request = FleetRequest(fleet: "prod", host: "a")
    // One transaction, however busy the machine is.
    request.turn = .seconds(3_600)
    request.news = news
    change(&request)
    return try storage.carryOut(request)
  }

  func revision() throws -> Int64 { try storage.changes(since: nil).revision }

  func events(of name: String? = nil) throws -> [RecordedEvent] {
    try storage.history(of: name, sinceMilliseconds: nil, limit: nil)
  }

  /// Everything that can be read of the store, but for its revision.
  func picture() throws -> StorePicture { try StorePicture(of: storage) }
}

/// Everything that can be read of a store, but for its revision and for what only a file has.
struct StorePicture: Equatable {
  private var breakers: [StoredBreaker]
  private var declarations: [[StoredDeclaration]]
  private var events: [RecordedEvent]
  private var fleet: StoredFleet?
  private var orders: [FleetOrder]
  private var pending: [FleetOrder]

  init(of storage: some BreakerStorage) throws {
    let listed = try storage.list(beginningWith: "", in: nil)
    breakers = try storage.read(listed).compactMap { $0 }.map { breaker in
      var breaker = breaker
      breaker.lineage = 0
      breaker.era = 0
      breaker.countersKey = 0
      breaker.takenIn = Counted()
      breaker.leasesInFile = 0
      // A reboot takes the counters of a file, and with them when it was used last.
      breaker.usedAtMilliseconds = nil
      // For a commit that changes none, any of them is marked.
      breaker.revision = 0
      return breaker
    }
    declarations = try listed.map { one in
      try storage.declarations(of: one.name).sorted { $0.words < $1.words }
    }
    events = try storage.history(of: nil, sinceMilliseconds: nil, limit: nil)
    fleet = try storage.fleet()
    orders = try storage.fleetOrders()
    pending = try storage.pendingOrders(limit: .max).map(\.order)
  }
}

extension FleetCommand {
  /// A command of another host.
  static func given(
    _ action: Action, to name: String, stamp: Int64, age: Duration = .zero
  ) -> FleetCommand {
    FleetCommand(
      name: name, action: action, reason: "drill", author: "eve", host: "b", stamp: stamp,
      age: age)
  }
}

extension BreakerDraft {
  /// Trips the breaker for a time.
  mutating func trip(for time: Duration?) {
    let policy = breaker.policy
    apply { record, now in
      record.tripped(for: time, reason: "drill", at: now, policy: policy, jitter: 0)
    }
  }

  /// Carries a command out here, and gives it to the fleet.
  mutating func give(_ action: FleetCommand.Action) {
    if case .reset = action { reset(reason: nil) }
    command = GivenCommand(action, reason: nil, author: "ann")
  }
}

extension SQLiteStorage {
  /// Every breaker, by name.
  func all() throws -> [StoredBreaker] {
    try read(list(beginningWith: "", in: nil)).compactMap { $0 }
  }

  /// How many pages SQLite looks at on the connection that writes, while a body runs.
  func countingPages(_ body: () throws -> Void) throws -> Int {
    guard let handle = unsafe store?.writer.handle else {
      throw SupportError("the store is not open", 0)
    }
    func pages() -> Int {
      [SQLITE_DBSTATUS_CACHE_HIT, SQLITE_DBSTATUS_CACHE_MISS].reduce(0) { sum, kind in
        var count: Int32 = 0
        var highest: Int32 = 0
        unsafe sqlite3_db_status(handle, kind, &count, &highest, 0)
        return sum + Int(count)
      }
    }
    let before = pages()
    try body()
    return pages() - before
  }
}
