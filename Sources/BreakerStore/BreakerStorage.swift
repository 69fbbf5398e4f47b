package import BreakerCore

/// Where breakers are kept: one core step at a time, each of them whole or not at all.
///
/// The SQLite file is one such place and the memory of a process is another.
package protocol BreakerStorage: AnyObject, Sendable {
  /// Where one load tells whether anything changed; the address is good as long as the storage.
  ///
  /// Zero there means that nothing is known, so that every call has to ask for what changed. It is
  /// to be loaded before what it vouches for is read (rule of order 4).
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

  /// Deletes a breaker, if it is still the version asked for.
  func delete(_ name: String, ifStill version: StoredVersion?) throws(StoreError) -> Deletion

  /// The newest `limit` events after an instant, oldest first.
  func history(of name: String?, sinceMilliseconds: Int64?, limit: Int?) throws(StoreError)
    -> [RecordedEvent]

  /// The oldest `limit` events after one, in the order in which they happened.
  func events(after id: Int64, of name: String?, limit: Int) throws(StoreError) -> EventBatch

  /// Takes what a process says of a hook, and answers what it has to do now, in one transaction.
  func answer(_ request: HookRequest) throws(StoreError) -> HookTurn

  /// Those who wait for events of all processes.
  var listeners: Listeners { get }

  /// The policies that code has declared for a breaker.
  func declarations(of name: String) throws(StoreError) -> [StoredDeclaration]

  /// What the store knows of its fleet; nil if no relay has ever worked on it.
  func fleet() throws(StoreError) -> StoredFleet?

  /// The latest commands of the fleet, one for each aspect of each breaker.
  func fleetOrders() throws(StoreError) -> [FleetOrder]

  /// The oldest commands that the relay has yet to publish.
  func pendingOrders(limit: Int) throws(StoreError) -> [PendingOrder]

  /// Does what a relay requests, in one transaction; if nothing changes, nothing is written.
  func carryOut(_ request: FleetRequest) throws(StoreError) -> FleetChanges

  /// Forgets everything about the fleet; false if there was nothing to forget.
  func leaveFleet() throws(StoreError) -> Bool

  /// Takes the right to be the relay of the store; nil if another one has it.
  func holdRelay() throws(StoreError) -> RelayHold?

  /// Whether a relay works on the store.
  func isRelayHeld() throws(StoreError) -> Bool

  /// Tells what this store has given out from what one gave out that it is a copy of.
  func lineage() throws(StoreError) -> Int64

  /// What this process holds for as long as it lives, to be named in a lease or a claim that it is
  /// about to write; nil if it can hold nothing here.
  func lifeline() -> Lifeline?

  /// Whether the owner of a lease or a claim has ended for certain.
  func isGone(_ owner: ProcessIdentity) -> Bool

  /// The counters that processes share for a breaker; nil if it has none, or has lost them.
  func counters(of breaker: StoredBreaker) -> Counters?

  /// A breaker that was read before, with what has been counted since.
  func upToDate(_ breaker: StoredBreaker) -> StoredBreaker

  /// Forgets what is open if the file it belongs to was replaced or deleted.
  ///
  /// - Throws: Why that cannot be done yet; the replaced file must not be used meanwhile.
  func checkIdentity() throws(StoreError)

  /// Proves by a write that the storage can be written again.
  func proveWritable() throws(StoreError)

  /// Leaves the file as the next process should find it, before one that is done with it closes.
  func finish()

  /// Closes everything; the next use opens it again.
  func close()

  /// Takes the storage's locks, so that a fork finds it at rest.
  func willFork()

  /// Gives the locks back, on either side of the fork.
  func didFork()
}

extension BreakerStorage {
  /// What tells whether anything changed since it was last loaded.
  package func currentFingerprint() -> UInt64 { unsafe WALIndexPage.load(fingerprint) }

  /// Deletes a breaker, whatever it has come to; false if there was none.
  package func delete(_ name: String) throws(StoreError) -> Bool {
    try delete(name, ifStill: nil).isDeleted
  }
}
