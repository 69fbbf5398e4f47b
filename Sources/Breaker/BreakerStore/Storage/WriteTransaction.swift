internal import BreakerCore

/// A transaction that writes, from its beginning to its commit.
///
/// The rules of a store are extensions of it: steps, deletion, restoring, hooks, and the commands of a fleet. The
/// folder `Tables` has the functions that write each table. After an error the storage rolls all of it back.
package final class WriteTransaction: ReadTransaction {
  let user: StoreUser

  /// How many breakers there may be, and how many commands to breakers that are not there.
  let room: Int64

  /// The rows as this process has left them; nil if another one may have committed since.
  private var known: OwnCommits?

  /// The revision that the transaction gives to whatever it changes.
  private(set) var revision: Int64 = 0

  /// The actions that have to follow the commit.
  var demands = CommitDemands()

  /// The time at which everything in it happens; read once it has begun (rule of order 10).
  private lazy var moment = clock.moment

  override var now: Moment { moment }
  override var instant: Instant { moment.boot }

  init(
    on connection: Connection, clock: StoreClock, counterPage: CounterPage? = nil,
    judge: OwnerJudge? = nil, by user: StoreUser, room: Int64
  ) {
    self.user = user
    self.room = room
    super.init(on: connection, clock: clock, counterPage: counterPage, judge: judge)
  }

  /// Begins with the revision that it gives to what it changes; call it before anything is written.
  func begin(at revision: Int64, knowing known: OwnCommits? = nil) {
    self.revision = revision
    self.known = known
  }

  /// Sets its time to the present (rule of order 10).
  ///
  /// A step of another thread must not be dated before that thread asked for it: a probe that was
  /// due by then would be rejected.
  func happensNow() { moment = clock.moment }

  override func find(_ name: String) throws(StoreError) -> StoredBreaker? {
    if let known = known?.breaker(name) { return upToDate(known) }
    return try storedBreaker(name).map(upToDate)
  }

  /// Writes a value that no one depends on.
  func proveWritable() throws(StoreError) {
    try OpenStore.proveWritable(on: connection, at: now.wallMilliseconds)
  }
}

/// Events, deletion and restoring.
extension WriteTransaction {
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
extension WriteTransaction {
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

/// The actions that have to follow a commit.
struct CommitDemands: Sendable, Hashable {
  /// Whether waiting processes have to be woken, as they are for events.
  var wakesListeners = false

  /// Whether the commit must be on the disk before the call returns, as events must.
  var mustBeDurable = false

  /// The demands of an event, and of a restore even without an event.
  static let ofEvents = CommitDemands(wakesListeners: true, mustBeDurable: true)
}
