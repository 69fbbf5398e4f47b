internal import BreakerCore

/// Everything that can be read of one state of a store.
///
/// The folder `Tables` has the functions that read each table, beside its columns.
package class ReadTransaction {
  let connection: Connection
  let clock: StoreClock
  private let counterPage: CounterPage?
  private let judge: OwnerJudge

  /// Reads on a connection; without a judge, the kernel tells which owners have ended.
  init(
    on connection: Connection, clock: StoreClock, counterPage: CounterPage? = nil,
    judge: OwnerJudge? = nil
  ) {
    self.connection = connection
    self.clock = clock
    self.counterPage = counterPage
    self.judge = judge ?? OwnerJudge(of: connection.path)
  }

  final var header: StoreHeader { connection.header(clock) }

  /// The name of the store in messages.
  final var path: String { connection.path }

  /// A number that distinguishes permits of this store from those of a store that it is a copy of.
  final var lineage: Int64 { header.lineage }

  /// The boot that the store's times belong to.
  final var boot: Int64 { header.boot.number }

  /// Whether the owner of a lease or a claim has certainly ended.
  final func isGone(_ owner: ProcessIdentity) -> Bool { judge.isGone(owner) }

  /// The time of the transaction.
  var now: Moment { clock.moment }

  /// When counters are read.
  ///
  /// The time advances while a list is read. Otherwise other processes' latest counts would lie in
  /// its future, and be taken for damaged.
  var instant: Instant { clock.instant }

  /// The breaker of that name, with everything that has been counted; nil if there is none.
  func find(_ name: String) throws(StoreError) -> StoredBreaker? {
    try storedBreaker(name).map(upToDate)
  }

  final func upToDate(_ breaker: StoredBreaker) -> StoredBreaker {
    var breaker = breaker
    counterPage?.takeIn(to: &breaker, at: instant)
    return breaker
  }

  /// Ties a breaker to the counters that processes share; the transaction then has to save it.
  final func tie(_ breaker: inout StoredBreaker) { counterPage?.tie(to: &breaker, at: instant) }
}

/// Hooks.
extension ReadTransaction {
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

/// The record of a hook after a request, and what the process that made it has to do now.
struct HookChange {
  var record: HookRecord
  var turn: HookTurn

  /// Whether the record has to be written.
  var hasChanged: Bool
}
