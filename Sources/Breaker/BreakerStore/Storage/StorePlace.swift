package import BreakerCore

/// Everything that can be read of one state of a store.
package protocol StoreReading: AnyObject {
  /// Names the store in messages.
  var path: String { get }

  /// The time of the transaction.
  var now: Moment { get }

  /// Distinguishes permits of this store from those of a store that it is a copy of.
  var lineage: Int64 { get }

  /// The boot that the store's times belong to.
  var boot: Int64 { get }

  /// Whether the owner of a lease or a claim has certainly ended.
  func isGone(_ owner: ProcessIdentity) -> Bool

  /// The breaker of that name, with everything that has been counted; nil if there is none.
  func find(_ name: String) throws(StoreError) -> StoredBreaker?

  /// A breaker that was listed before; nil if it is gone.
  func find(_ listed: ListedBreaker) throws(StoreError) -> StoredBreaker?

  /// The breakers with names that begin with a text, by name.
  ///
  /// With a state, it returns candidates; read each one for its current state.
  func list(beginningWith prefix: String, in state: BreakerState?) throws(StoreError)
    -> [ListedBreaker]

  /// The policies that code has declared for a breaker.
  func declarations(of name: String) throws(StoreError) -> [StoredDeclaration]

  /// The newest `limit` events after an instant, oldest first.
  func history(of name: String?, sinceMilliseconds: Int64?, limit: Int?) throws(StoreError)
    -> [RecordedEvent]

  /// The oldest `limit` events after one, in the order in which they happened.
  func events(after id: Int64, of name: String?, limit: Int) throws(StoreError) -> EventBatch

  /// How far a hook has got; nil if it has never been asked for.
  func hook(_ name: String) throws(StoreError) -> HookRecord?

  /// What the store knows of its fleet; nil if no relay has ever worked on it.
  ///
  /// Counting the commands that wait takes longer the more there are.
  func fleet(counting: Bool) throws(StoreError) -> StoredFleet?

  /// The latest command about each aspect of a breaker, or of every breaker.
  func registers(of name: String?) throws(StoreError) -> [FleetRegister]

  /// The oldest commands that the relay has yet to publish, to one breaker or to all.
  func pendingOrders(of name: String?, limit: Int) throws(StoreError) -> [PendingOrder]

  /// Whether there are commands that the relay has yet to publish.
  func hasPendingOrders() throws(StoreError) -> Bool

  /// How many commands of the fleet are remembered; counting them takes longer the more there are.
  func commandCount() throws(StoreError) -> Int
}

extension StoreReading {
  /// What the store knows of its fleet.
  func fleet() throws(StoreError) -> StoredFleet? { try fleet(counting: true) }
}

/// What a step inside a transaction can do to a store, and nothing else.
///
/// The rules of a store are written once, in terms of this protocol: steps, deletion, hooks,
/// restoring, and the commands of a fleet. The storage begins the transaction, and rolls all of it
/// back after an error.
package protocol StorePlace: StoreReading {
  /// The revision that the transaction gives to whatever it changes.
  var revision: Int64 { get }

  /// What the commit has to be followed by.
  var demands: CommitDemands { get set }

  /// How many breakers there may be, and how many commands to breakers that are not there.
  var room: Int64 { get }

  /// Why there is no room for one more breaker; nil if there is.
  func lackOfRoom() throws(StoreError) -> StoreError?

  /// Makes the row of a breaker, and gives the breaker its id.
  func insert(_ breaker: inout StoredBreaker) throws(StoreError)

  /// Ties a breaker to the counters that processes share; the transaction then has to save it.
  func tie(_ breaker: inout StoredBreaker)

  /// Writes a breaker that has changed; its revision is set already.
  func save(_ breaker: inout StoredBreaker, before: StoredBreaker) throws(StoreError)

  /// Deletes a breaker and its declarations.
  func delete(_ breaker: StoredBreaker) throws(StoreError)

  /// Marks a breaker as changed, although nothing in it has changed; without a name, any breaker.
  ///
  /// Other processes see that there was a commit. If it raises a revision, they read that breaker
  /// again; otherwise they would read all breakers again.
  func raiseRevision(of name: String?) throws(StoreError)

  /// Keeps the latest policies that code has declared for a breaker.
  func declare(_ words: String, for breaker: StoredBreaker) throws(StoreError)

  /// Adds an event to the history; call `record(_:of:)`, which also notes what has to follow.
  func append(_ event: BreakerEvent, of name: String) throws(StoreError)

  /// Writes how far a hook has got.
  func save(_ hook: HookRecord, of name: String) throws(StoreError)

  /// Writes what the store knows of its fleet, except `waiting`, which is counted.
  func save(_ fleet: StoredFleet) throws(StoreError)

  /// Deletes everything that is known of the fleet.
  func forgetFleet() throws(StoreError)

  /// Keeps a register in place of the earlier one about the same aspect.
  func keep(_ register: FleetRegister) throws(StoreError)

  /// Adds a command to those that the relay has yet to publish.
  func append(_ order: FleetOrder) throws(StoreError)

  /// Notes why a command cannot be published for now; nil if that is over.
  func refuse(_ id: Int64, because why: String?) throws(StoreError)

  /// Forgets the latest command about an aspect of a breaker.
  func forget(_ register: FleetRegister) throws(StoreError)

  /// Removes commands from those that the relay has yet to publish.
  func deletePending(_ ids: ClosedRange<Int64>) throws(StoreError)

  /// Forgets every command with a higher stamp, whether or not the relay has published it.
  func forgetOrders(stampedAbove stamp: Int64) throws(StoreError)

  /// Writes a value that no one depends on.
  func proveWritable() throws(StoreError)
}

/// What has to follow a commit.
package struct CommitDemands: Sendable, Hashable {
  /// Whether waiting processes have to be woken, as they are for events.
  var wakesListeners = false

  /// Whether the commit must be on the disk before the call returns, as events must.
  var mustBeDurable = false

  /// What an event demands, and a restore even without an event.
  static let ofEvents = CommitDemands(wakesListeners: true, mustBeDurable: true)
}

/// Events, deletion and restoring.
extension StorePlace {
  /// Records an event, and notes what it demands of the commit.
  func record(_ event: BreakerEvent, of name: String) throws(StoreError) {
    try append(event, of: name)
    demands = .ofEvents
  }

  /// Deletes a breaker; false if there was none, or if it is no longer the version asked for.
  func delete(_ name: String, ifStill version: StoredVersion?) throws(StoreError) -> Bool {
    guard let found = try find(name) else { return false }
    if let version, StoredVersion(of: found) != version { return false }
    try delete(found)
    var draft = BreakerDraft(now: now, breaker: found, isGone: { isGone($0) })
    draft.note(.deletion(from: draft.breaker.record.state), reason: nil)
    for event in draft.events { try record(event, of: name) }
    return true
  }

  /// Changes several breakers, and makes those that are not there.
  ///
  /// - Throws: Why a step is refused; the caller rolls the transaction back.
  func take(together steps: [NamedStep], mustBeNew: Bool) throws(StoreError) -> TransactedTogether {
    var done = TransactedTogether()
    if mustBeNew {
      for step in steps where try find(step.name) != nil { done.present.append(step.name) }
    }
    guard done.present.isEmpty else { return done }
    for step in steps {
      // Not one group for all, because a group searches its breakers one by one.
      let taken = try take(step.name, orCreate: true, step.body)
      done.events.append((step.name, taken?.events ?? []))
      if let taken { done.breakers.append(taken.breaker) }
    }
    // A restore returns only once all of it is on the disk.
    demands = .ofEvents
    return done
  }
}

/// Hooks.
extension StoreReading {
  /// Applies what a process reports about a hook and asks for; nothing is written yet.
  func change(by request: HookRequest) throws(StoreError) -> HookChange {
    let found = try hook(request.hook)
    var record: HookRecord
    if let found {
      record = found
    } else {
      let newest = try events(after: .max, of: nil, limit: 0).newest
      record = HookRecord(for: request, newest: newest)
    }
    let turn = try record.answer(
      request, at: now.boot, boot: boot, lineage: lineage, isGone: { isGone($0) }
    ) { (last: Int64) throws(StoreError) -> RecordedEvent? in
      try events(after: last, of: request.name, limit: 1).events.first
    }
    return HookChange(record: record, turn: turn, hasChanged: record != found)
  }
}

extension StorePlace {
  /// Applies what a process reports about a hook and asks for, and returns what it has to do now.
  func answer(_ request: HookRequest) throws(StoreError) -> HookTurn {
    let change = try change(by: request)
    guard change.hasChanged else { return change.turn }
    try save(change.record, of: request.hook)
    if let name = change.turn.breaker ?? request.report?.name { try raiseRevision(of: name) }
    // When a process stops, another one has to be woken to go on.
    if !request.mayRun { demands.wakesListeners = true }
    return change.turn
  }
}

/// The record of a hook after a request, and what the process that made it has to do now.
struct HookChange {
  var record: HookRecord
  var turn: HookTurn

  /// Whether the record has to be written.
  var hasChanged: Bool
}
