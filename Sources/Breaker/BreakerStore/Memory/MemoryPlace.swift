package import BreakerCore

/// The user of a store in memory, and why it can make no breakers there, if it cannot.
package struct MemoryUser {
  package var author: HistoryAuthor
  package var lackOfRoom: StoreError?

  package init(_ author: HistoryAuthor, lackOfRoom: StoreError? = nil) {
    self.author = author
    self.lackOfRoom = lackOfRoom
  }
}

/// Everything in a `MemoryStorage` that changes, under the lock of that storage.
final class MemoryPlace {
  let path = "in memory"

  /// Distinguishes the permits of this memory from those of another one.
  let lineage = Int64.random(in: .min ... .max)
  let clock: StoreClock

  let room: Int64
  private let judge: @Sendable (ProcessIdentity) -> Bool

  private(set) var now: Moment
  private var user: MemoryUser
  var demands = CommitDemands()

  private var breakers = MemoryTable<NameBytes, StoredBreaker>()
  private var declared = MemoryTable<NameBytes, [StoredDeclaration]>()
  private var hooks = MemoryTable<NameBytes, HookRecord>()
  private var registers = MemoryTable<NameBytes, [FleetAspect: FleetRegister]>()
  private var outbox = MemoryTable<Int64, PendingOrder>()

  /// The latest event of each breaker, kept or not.
  private var latest = MemoryTable<NameBytes, Int64>()
  private var history: [RecordedEvent] = []
  private var marks = Marks()

  /// The marks before the transaction.
  private var before = Marks()

  /// How often the breakers have changed, beginning with 1.
  private(set) var changes: UInt64 = 1

  private struct Marks {
    var revision: Int64 = 0
    var deletedRevision: Int64 = 0
    var lastBreaker: Int64 = 0
    var lastEvent: Int64 = 0
    var lastOrder: Int64 = 0
    var fleet: StoredFleet?
  }

  init(
    clock: StoreClock, user: MemoryUser, room: Int64,
    isGone: @escaping @Sendable (ProcessIdentity) -> Bool
  ) {
    self.clock = clock
    self.user = user
    self.room = room
    judge = isGone
    now = clock.moment
  }

  /// Lets a body read the current state.
  func read<Answer>(
    _ body: (any StoreReading) throws(StoreError) -> Answer
  ) throws(StoreError) -> Answer {
    now = clock.moment
    return try body(self)
  }

  /// Runs a body in a transaction of a user; if it throws, everything is rolled back.
  func transaction<Answer>(
    of user: MemoryUser, _ body: (MemoryPlace) throws(StoreError) -> Answer
  ) throws(StoreError) -> Answer {
    now = clock.moment
    self.user = user
    demands = CommitDemands()
    do throws(StoreError) {
      let answer = try body(self)
      commit()
      return answer
    } catch {
      rollBack()
      throw error
    }
  }

  private func commit() {
    breakers.commit()
    declared.commit()
    hooks.commit()
    registers.commit()
    outbox.commit()
    latest.commit()
    let excess = history.count - Int(EventTable.eventsOfOneBreaker)
    if excess > 0 { history.removeFirst(excess) }
    if marks.revision != before.revision { changes += 1 }
    before = marks
  }

  private func rollBack() {
    breakers.rollBack()
    declared.rollBack()
    hooks.rollBack()
    registers.rollBack()
    outbox.rollBack()
    latest.rollBack()
    history.removeLast(Int(marks.lastEvent - before.lastEvent))
    marks = before
  }
}

/// What only a store in memory can do.
extension MemoryPlace {
  /// Forgets a breaker without an event.
  func forget(_ name: String) {
    breakers[NameBytes(name)] = nil
    declared[NameBytes(name)] = nil
    changes += 1
    commit()
  }

  /// Forgets every breaker but those of some names.
  func clear(keeping kept: Set<NameBytes>) {
    breakers.mapRows { kept.contains($0) ? $1 : nil }
    declared.mapRows { kept.contains($0) ? $1 : nil }
    changes += 1
    commit()
  }

  /// Adds a breaker as another storage knew it, unless there is one of its name.
  func seed(_ breaker: StoredBreaker) {
    let key = NameBytes(breaker.name)
    guard breakers[key] == nil else { return }
    marks.lastBreaker = max(marks.lastBreaker, min(breaker.id, .max / 16))
    marks.revision += 1
    breakers[key] = breaker
    breakers[key]?.revision = marks.revision
    commit()
  }

  /// Carries everything over into the present boot.
  func carryOverReboot() {
    let now = clock.moment
    let bootedAtMilliseconds = clock.sighting.bootedAtMilliseconds
    let revision = marks.revision + 1
    breakers.mapRows { _, breaker in
      var breaker = breaker
      breaker.record.moveBeginning(
        to: breaker.record.stateBegan(
          createdAtMilliseconds: breaker.createdAtMilliseconds,
          bootedAtMilliseconds: bootedAtMilliseconds, beforeBoot: true))
      breaker.record = breaker.record.carriedOver(to: now)
      breaker.revision = revision
      return breaker
    }
    registers.mapRows { _, registers in
      registers.mapValues { FleetRegister($0.order.carriedOver(to: now), isInForce: $0.isInForce) }
    }
    outbox.mapRows {
      PendingOrder(id: $0, order: $1.order.carriedOver(to: now), refusal: $1.refusal)
    }
    marks.revision = revision
    commit()
  }

  func changes(since revision: Int64?) -> StoreChanges {
    let changed = breakers.rows.values.filter { $0.revision > revision ?? .max }
    return StoreChanges(
      continuity: lineage, breakers: changed.sorted { $0.revision < $1.revision },
      revision: marks.revision, deletedRevision: marks.deletedRevision)
  }
}

extension MemoryPlace: StoreReading {
  var boot: Int64 { clock.bootID ?? 0 }

  func isGone(_ owner: ProcessIdentity) -> Bool { judge(owner) }

  func find(_ name: String) -> StoredBreaker? { breakers[NameBytes(name)] }

  func find(_ listed: ListedBreaker) -> StoredBreaker? { find(listed.name) }

  func list(beginningWith prefix: String, in state: BreakerState?) -> [ListedBreaker] {
    breakers.rows
      .filter { $0.key.bytes.starts(with: prefix.utf8) }
      .filter { state.map($0.value.record.state.mayBecome) ?? true }
      .sorted { $0.key.precedes($1.key) }
      .map { ListedBreaker(id: $0.value.id, name: $0.value.name) }
  }

  func declarations(of name: String) -> [StoredDeclaration] { declared[NameBytes(name)] ?? [] }

  func history(
    of name: String?, sinceMilliseconds: Int64?, limit: Int?
  ) -> [RecordedEvent] {
    let found = history.filter {
      $0.isOf(name) && $0.atMilliseconds >= sinceMilliseconds ?? .min
    }
    return limit.map { Array(found.suffix(max(0, $0))) } ?? found
  }

  func events(after id: Int64, of name: String?, limit: Int) -> EventBatch {
    let events = history.lazy.filter { $0.id > id && $0.isOf(name) }.prefix(max(0, limit))
    return EventBatch(store: lineage, newest: marks.lastEvent, events: Array(events))
  }

  func hook(_ name: String) -> HookRecord? { hooks[NameBytes(name)] }

  func fleet(counting: Bool) -> StoredFleet? {
    var fleet = marks.fleet
    guard counting else { return fleet }
    fleet?.waiting = outbox.rows.count
    let refusals = outbox.rows.sorted { $0.key < $1.key }.compactMap(\.value.refusal)
    fleet?.refused = refusals.count
    fleet?.refusal = refusals.first
    return fleet
  }

  func registers(of name: String?) -> [FleetRegister] {
    if let name { return registers[NameBytes(name)].map { Array($0.values) } ?? [] }
    return registers.rows.sorted { $0.key.precedes($1.key) }.flatMap { one in
      one.value.sorted { $0.key.text < $1.key.text }.map(\.value)
    }
  }

  func pendingOrders(of name: String?, limit: Int) -> [PendingOrder] {
    let sorted = outbox.rows.sorted { $0.key < $1.key }
      .map(\.value)
    let found = name.map { name in
      sorted.filter { NameBytes($0.order.name) == NameBytes(name) }
    }
    return Array((found ?? sorted).prefix(max(0, limit)))
  }

  func hasPendingOrders() -> Bool { !outbox.rows.isEmpty }

  func commandCount() -> Int { registers.rows.values.reduce(0) { $0 + $1.count } }
}

extension MemoryPlace: StorePlace {
  var revision: Int64 { before.revision + 1 }

  func lackOfRoom() -> StoreError? {
    if let lack = user.lackOfRoom { return lack }
    return breakers.rows.count < room ? nil : StoreRoom.error(path: path, limit: room)
  }

  func insert(_ breaker: inout StoredBreaker) {
    marks.lastBreaker += 1
    breaker.id = marks.lastBreaker
    breaker.revision = revision
    save(&breaker, before: breaker)
  }

  func tie(_ breaker: inout StoredBreaker) {}

  func save(_ breaker: inout StoredBreaker, before: StoredBreaker) {
    marks.revision = max(marks.revision, breaker.revision)
    breakers[NameBytes(breaker.name)] = breaker
  }

  func delete(_ breaker: StoredBreaker) {
    breakers[NameBytes(breaker.name)] = nil
    declared[NameBytes(breaker.name)] = nil
    marks.revision = max(marks.revision, breaker.revision) + 1
    marks.deletedRevision = marks.revision
  }

  func raiseRevision(of name: String?) {
    let key = name.map { NameBytes($0) } ?? breakers.rows.first?.key
    guard let key, breakers[key] != nil else { return }
    breakers[key]?.revision = revision
    marks.revision = revision
  }

  func declare(_ words: String, for breaker: StoredBreaker) {
    var kept = declarations(of: breaker.name)
    kept.removeAll { $0.words == words }
    kept.append(
      StoredDeclaration(
        words: words, atMilliseconds: now.wallMilliseconds, pid: user.author.pid,
        program: user.author.program))
    declared[NameBytes(breaker.name)] = Array(kept.suffix(Int(BreakerTable.declarations)))
  }

  func append(_ event: BreakerEvent, of name: String) {
    marks.lastEvent += 1
    let previous = latest[NameBytes(name)]
    latest[NameBytes(name)] = marks.lastEvent
    history.append(
      RecordedEvent(
        id: marks.lastEvent, atMilliseconds: event.atMilliseconds, name: name,
        change: event.change, reason: event.reason, pid: user.author.pid,
        program: user.author.program, previous: previous, origin: event.origin,
        giver: event.giver, mandate: user.author.mandate, beginsOutage: event.beginsOutage))
  }

  func save(_ hook: HookRecord, of name: String) { hooks[NameBytes(name)] = hook }

  func save(_ fleet: StoredFleet) { marks.fleet = fleet }

  func forgetFleet() {
    marks.fleet = nil
    registers.mapRows { _, _ in nil }
    outbox.mapRows { _, _ in nil }
  }

  func keep(_ register: FleetRegister) {
    guard let aspect = register.aspect else { return }
    let key = NameBytes(register.order.name)
    var kept = registers[key] ?? [:]
    kept[aspect] = register
    registers[key] = kept
  }

  func append(_ order: FleetOrder) {
    marks.lastOrder += 1
    outbox[marks.lastOrder] = PendingOrder(id: marks.lastOrder, order: order)
  }

  func refuse(_ id: Int64, because why: String?) { outbox[id]?.refusal = why }

  func forget(_ register: FleetRegister) {
    guard let aspect = register.aspect else { return }
    registers[NameBytes(register.order.name)]?[aspect] = nil
  }

  func deletePending(_ ids: ClosedRange<Int64>) {
    for id in outbox.rows.keys where ids.contains(id) { outbox[id] = nil }
  }

  func forgetOrders(stampedAbove stamp: Int64) {
    registers.mapRows { _, registers in
      let left = registers.filter { $0.value.order.stamp <= stamp }
      return left.isEmpty ? nil : left
    }
    outbox.mapRows { $1.order.stamp <= stamp ? $1 : nil }
  }

  func proveWritable() {}
}

extension RecordedEvent {
  /// Whether the event is about the breaker of this name; without a name, about any.
  fileprivate func isOf(_ name: String?) -> Bool {
    name.map { NameBytes($0) == NameBytes(self.name) } ?? true
  }
}

/// A table in memory, whose changes can be rolled back until they are committed.
///
/// It remembers the earlier values of the rows that a transaction touches. A copy of the whole table
/// would take time in proportion to its size.
struct MemoryTable<Key: Hashable, Row> {
  private(set) var rows: [Key: Row] = [:]
  private var changes: [(key: Key, before: Row?)] = []

  subscript(key: Key) -> Row? {
    get { rows[key] }
    set {
      changes.append((key, rows[key]))
      rows[key] = newValue
    }
  }

  /// Changes or deletes every row that there is.
  mutating func mapRows(_ row: (Key, Row) -> Row?) {
    for (key, before) in rows { self[key] = row(key, before) }
  }

  /// Keeps all changes.
  mutating func commit() { changes.removeAll(keepingCapacity: changes.count < 16) }

  /// Undoes all changes since the latest commit.
  mutating func rollBack() {
    for change in changes.reversed() { rows[change.key] = change.before }
    commit()
  }
}
