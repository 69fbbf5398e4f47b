package import BreakerCore

/// Where breakers are kept: one core step at a time, each of them whole or not at all.
///
/// The SQLite file is one such place and the memory of a process is another.
package protocol BreakerStorage: AnyObject, Sendable {
  /// Where one load tells whether anything changed; the address is good as long as the storage.
  ///
  /// Zero there means that nothing is known, so that every call has to ask for what changed. It is
  /// to be loaded *before* what it vouches for is read.
  var fingerprint: UnsafePointer<UInt64> { get }

  /// Makes sure that the storage can be used, and makes it if it is not there.
  func open(mayCreate: Bool) throws(StoreError)

  /// Everything that changed after a revision, for all breakers at once.
  ///
  /// Without a revision it is only told which one is the newest.
  func changes(since revision: Int64?) throws(StoreError) -> StoreChanges

  /// The breaker of that name, or nil if there is none.
  func find(_ name: String) throws(StoreError) -> StoredBreaker?

  /// Which breakers there are with names that begin with a text; by name.
  ///
  /// With a state, only those that may be in it by now; who reads them sees which are.
  func list(beginningWith prefix: String, in state: BreakerState?) throws(StoreError)
    -> [ListedBreaker]

  /// Some breakers as they stand at one moment, in the order asked for; nil for one that is gone.
  func read(_ listed: some Collection<ListedBreaker>) throws(StoreError) -> [StoredBreaker?]

  /// Reads a breaker, lets `body` decide, and writes what it decided, in one transaction.
  ///
  /// Threads that call it at the same time share a transaction, each seeing what those before it
  /// have decided. The clock is read once, inside. If there is no such breaker, `body` gets a new one where
  /// `orCreate` says so; otherwise it is not called, and the answer is nil.
  func transact<Answer>(
    _ name: String, orCreate: Bool, wait: Wait, _ body: (inout BreakerDraft) -> Answer
  ) throws(StoreError) -> Transacted<Answer>?

  /// Changes several breakers, and makes those that are not there, in one transaction.
  func transact(together steps: [NamedStep], mustBeNew: Bool) throws(StoreError)
    -> TransactedTogether

  /// Deletes a breaker; false if there was none, or if it is no longer the version asked for.
  func delete(_ name: String, ifStill version: StoredVersion?) throws(StoreError) -> Bool

  /// The newest `limit` events after an instant, oldest first.
  func history(of name: String?, sinceMilliseconds: Int64?, limit: Int?) throws(StoreError)
    -> [StoredEvent]

  /// The oldest `limit` events after one, in the order in which they happened.
  func events(after id: Int64, of name: String?, limit: Int) throws(StoreError) -> EventPage

  /// Takes what a process says of a hook, and answers what it has to do now, in one transaction.
  func stepHook(_ step: HookStep) throws(StoreError) -> HookTurn

  /// Those who wait for events of all processes.
  var listeners: Listeners { get }

  /// The policies that code has declared for a breaker.
  func declarations(of name: String) throws(StoreError) -> [StoredDeclaration]

  /// The counters that processes share for a breaker; nil if it has none, or has lost them.
  func counters(of breaker: StoredBreaker) -> Counters?

  /// A breaker that was read before, with what has been counted since.
  func upToDate(_ breaker: StoredBreaker) -> StoredBreaker

  /// Forgets what is open if the file it belongs to was replaced or deleted.
  func checkIdentity()

  /// Proves by a write that the storage can be written again.
  func proveWritable() throws(StoreError)

  /// Leaves the file as whoever comes next should find it, before a process that is done with it closes.
  func finish()

  /// Lets go of everything; the next use opens it anew.
  func close()

  /// Takes the storage's locks, so that a fork finds it at rest.
  func willFork()

  /// Gives the locks back, on either side of the fork.
  func didFork()
}

extension BreakerStorage {
  /// What tells whether anything changed since it was last loaded.
  package func currentFingerprint() -> UInt64 { unsafe WatchPage.load(fingerprint) }

  /// Deletes a breaker, whatever it has come to; false if there was none.
  package func delete(_ name: String) throws(StoreError) -> Bool {
    try delete(name, ifStill: nil)
  }
}

/// How long a transaction waits for its turn.
package enum Wait: Sendable {
  case usual

  /// A moment: if another process is writing now, this can be done later.
  case brief
}

/// What a transaction has answered, and the breaker as it stands after it.
package struct Transacted<Answer> {
  package var answer: Answer
  package var breaker: StoredBreaker
  package var events: [BreakerEvent]

  /// Why the transaction, which every process sees, may not survive a power cut.
  package var syncError: StoreError?

  /// The fingerprints right before and right after it; nil if another commit has come since.
  package var fingerprints: Fingerprints?

  /// The other breakers that the same transaction has changed, as they stand after it.
  package var others: [StoredBreaker] = []
}

extension Transacted: Sendable where Answer: Sendable {}

/// The fingerprints right before and right after a transaction.
package struct Fingerprints: Sendable, Hashable {
  package var before: UInt64
  package var after: UInt64
}

/// A breaker, and where it is found.
package struct ListedBreaker: Sendable, Hashable {
  package var id: Int64
  package var name: String

  package init(id: Int64, name: String) {
    self.id = id
    self.name = name
  }
}

/// A breaker in the middle of a transaction.
package struct BreakerDraft {
  package let now: Moment
  package var breaker: StoredBreaker

  package var events: [BreakerEvent]

  /// Words that code declares, to be kept beside what others declared.
  package var declaration: String?

  /// Creates a draft and applies what time alone has changed since the breaker was last written.
  ///
  /// So it is recorded before anything else is, and by the policy that held until then.
  init(
    now: Moment, breaker: StoredBreaker,
    isGone: (ProcessIdentity) -> Bool = HostProcesses.system.isGone
  ) {
    self.now = now
    self.breaker = breaker
    events = self.breaker.record.settle(at: now, policy: breaker.policy, isGone: isGone)
  }

  /// Applies a step of the core and keeps its events.
  package mutating func apply<Answer>(
    _ step: (inout BreakerRecord, Moment) -> Step<Answer>
  ) -> Answer {
    let done = step(&breaker.record, now)
    events += done.events
    return done.answer
  }

  /// Keeps an event that happens now.
  package mutating func note(
    _ kind: BreakerEvent.Kind, from: String, to: String, reason: String?
  ) {
    events.append(
      BreakerEvent(
        kind, from: from, to: to, reason: reason, atMilliseconds: now.wallMilliseconds))
  }
}

/// What changed in a storage.
package struct StoreChanges: Sendable {
  /// Differs from the last time if revisions alone do not tell all that has happened since.
  ///
  /// The file may be another one or an older copy, or a program that knows nothing of revisions,
  /// such as the sqlite3 shell, has written to it.
  package var continuity: Int64
  package var breakers: [StoredBreaker]

  /// The highest revision that these changes bring their reader up to.
  package var revision: Int64

  /// The revision of the latest deletion, which no row is left to tell of.
  package var deletedRevision: Int64

  /// Whether the file is of another lineage or boot than the session has taken it for.
  var isOfOtherHeader = false

  package init(
    continuity: Int64, breakers: [StoredBreaker], revision: Int64, deletedRevision: Int64
  ) {
    self.continuity = continuity
    self.breakers = breakers
    self.revision = revision
    self.deletedRevision = deletedRevision
  }
}

/// One event of the history.
package struct StoredEvent: Sendable, Hashable {
  package var id: Int64

  /// When it happened, which may be before it was written.
  package var atMilliseconds: Int64
  package var name: String
  package var kind: BreakerEvent.Kind
  package var from: String
  package var to: String
  package var reason: String?
  package var pid: Int32
  package var program: String

  /// The event before it of the same breaker, kept or not; nil if there is none.
  package var previous: Int64?
}

/// A policy that code declared, and who was the last to declare it.
package struct StoredDeclaration: Sendable, Hashable {
  package var words: String
  package var atMilliseconds: Int64
  package var pid: Int32
  package var program: String
}
