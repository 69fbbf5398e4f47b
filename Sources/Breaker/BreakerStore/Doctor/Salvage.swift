@_spi(Relay) internal import BreakerCore
internal import Glibc

/// The breakers of a damaged store that can still be read.
struct Salvage {
  private(set) var breakers: [StoredBreaker] = []
  private var fleet = FleetRemains()

  /// Reads the readable parts, of which there may be none.
  ///
  /// No process may write to the store meanwhile.
  init(of place: StoreSite, clock: StoreClock, lockTimeout: Duration) {
    do throws(StoreError) {
      guard
        let reader = try Connection.reading(place, isAlone: false, lockTimeout: lockTimeout)
      else { return }
      let columns = try Self.columns(on: reader)
      reader.header = Self.header(on: reader, place, clock)
      var found: [Int64: StoredBreaker] = [:]
      // Read from both ends, up to the damage.
      for order in ["ASC", "DESC"] {
        for id in Self.ids(order, on: reader) where found[id] == nil {
          found[id] = Self.breaker(id, columns, on: reader, clock: clock)
        }
      }
      fleet = FleetRemains(on: reader, clock: clock)
      let counters = CounterFile.opened(place.beside(CounterFile.suffix), O_RDONLY)
      defer { if let counters { close(counters.descriptor) } }
      breakers = found.values.sorted { $0.id < $1.id }.map { breaker in
        var breaker = breaker
        breaker.record = breaker.record.settled(
          at: clock.moment, policy: breaker.policy, isGone: OwnerJudge(of: place.path).isGone)
        // Most successes are counted only in the file beside the store.
        if let passed = counters?.counted(since: breaker) {
          breaker.record.totals += passed.totals
        }
        return breaker
      }
    } catch {
      // Then there is nothing to take over.
    }
  }

  /// The store's header; nil if it is damaged too, or of an older version.
  private static func header(
    on reader: Connection, _ place: StoreSite, _ clock: StoreClock
  ) -> StoreHeader? {
    do throws(StoreError) {
      return try StoreHeader.seen(on: reader, place.terms(clock))
    } catch {
      return nil
    }
  }

  private static func ids(_ order: String, on reader: Connection) -> [Int64] {
    var ids: [Int64] = []
    do throws(StoreError) {
      let query = try reader.prepare("SELECT id FROM breaker ORDER BY id \(order)")
      defer { query.reset() }
      while try query.next() { ids.append(query.integer(0)) }
    } catch {
      // The ids read so far are those before the damage.
    }
    return ids
  }

  /// The columns to read a row by; a row of an older version lacks some of them.
  private static func columns(on reader: Connection) throws(StoreError) -> String {
    let present = try reader.prepare("SELECT name FROM pragma_table_info('breaker')")
      .rows { $0.text(0) ?? "" }
    return BreakerRow.columns(among: Set(present))
  }

  private static func breaker(
    _ id: Int64, _ columns: String, on reader: Connection, clock: StoreClock
  ) -> StoredBreaker? {
    do throws(StoreError) {
      let query = try reader.prepare("SELECT \(columns) FROM breaker WHERE id = \(id)")
      let read = try query.first { row throws(StoreError) in
        try ReadTransaction(on: reader, clock: clock).breaker(row)
      }
      guard let found = read,
        OutsideText.complaint(aboutName: found.name) == nil,
        RowExamination.isReadable(found.words.code ?? ""),
        RowExamination.isReadable(found.words.operator ?? "")
      else { return nil }
      return found
    } catch {
      return nil
    }
  }

  /// Takes over policies, modes still in effect, and the time for which breakers stay open.
  func bring(to storage: SQLiteStorage) throws(StoreError) {
    let steps = breakers.map { breaker in NamedStep(breaker.name) { $0.takeOver(breaker) } }
    let done = try storage.transact(together: steps, mustBeNew: false)
    if let error = done.syncError { throw error }
    try fleet.bring(to: storage)
  }
}

extension BreakerDraft {
  /// Continues a breaker of a damaged store; whatever processes have set since takes precedence.
  fileprivate mutating func takeOver(_ other: StoredBreaker) {
    breaker.words.fill(from: other.words)
    breaker.record.totals += other.record.totals
    defer {
      // Opening the breaker here is not a trip of its own.
      breaker.record.trips = max(breaker.record.trips, other.record.trips)
      breaker.record.tally.nanoseconds = other.record.tally.nanoseconds(
        in: other.record.state, at: now.boot)
      breaker.record.tally.entries = other.record.tally.entries
    }
    let reason = "taken over from a damaged store"
    if other.record.mode(at: now.boot) != .automatic, breaker.record.mode.mode == .automatic {
      breaker.record.mode = other.record.mode
      note(.mode(from: .automatic, to: other.record.mode.mode), reason: reason)
    }
    // A breaker that was half-open is due for a probe.
    guard other.record.state != .closed, breaker.record.state == .closed else { return }
    let left = max(0, other.record.openRemaining(at: now.boot) ?? 0)
    let length = min(left, BreakerPolicy.longestDuration.inNanoseconds)
    let policy = breaker.policy
    apply { record, now in
      record.tripped(
        for: .nanoseconds(length), reason: reason, at: now, policy: policy, jitter: 0)
    }
  }
}

/// The readable remains of a damaged store's fleet.
private struct FleetRemains {
  private var fleet: StoredFleet?
  private var registers: [FleetRegister] = []
  private var pending: [FleetOrder] = []

  init() {}

  /// Reads each table as far as it can be read; an earlier version has none of them.
  init(on reader: Connection, clock: StoreClock) {
    let transaction = ReadTransaction(on: reader, clock: clock)
    do throws(StoreError) {
      fleet = try transaction.fleet()
      registers = try transaction.registers(of: nil)
    } catch {
      // Other hosts will repeat what is missing.
    }
    do throws(StoreError) {
      pending = try transaction.pendingOrders(of: nil, limit: .max).map(\.order)
    } catch {
      // No other host knows these commands, but the operator can see that they had no effect there.
    }
  }

  /// Copies all but the position, so that the relay reads again what was lost.
  func bring(to storage: SQLiteStorage) throws(StoreError) {
    guard var fleet else { return }
    fleet.position = nil
    let syncError = try storage.write(wait: .usual) { place throws(StoreError) in
      for register in registers {
        try place.keep(register)
        fleet.stamp = max(fleet.stamp, register.order.stamp)
      }
      for order in pending { try place.append(order) }
      try place.save(fleet)
    }.syncError
    if let syncError { throw syncError }
  }
}
