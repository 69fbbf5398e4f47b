internal import BreakerCore

/// The breakers of a damaged store that can still be read.
struct Salvage {
  private(set) var breakers: [StoredBreaker] = []

  /// Reads what can be read; nothing if that is nothing.
  init(of place: StorePlace, clock: StoreClock, lockTimeout: Duration) {
    do throws(StoreError) {
      guard let reader = try Connection.reading(place, lockTimeout: lockTimeout) else { return }
      var found: [Int64: StoredBreaker] = [:]
      // From both ends, up to where the damage is.
      for order in ["ASC", "DESC"] {
        for id in Self.ids(order, on: reader) where found[id] == nil {
          found[id] = Self.breaker(id, on: reader, clock: clock)
        }
      }
      breakers = found.values.sorted { $0.id < $1.id }
    } catch {
      // Then there is nothing to take over.
    }
  }

  private static func ids(_ order: String, on reader: Connection) -> [Int64] {
    var ids: [Int64] = []
    do throws(StoreError) {
      let query = try reader.prepare("SELECT id FROM breaker ORDER BY id \(order)")
      defer { query.reset() }
      while try query.next() { ids.append(query.integer(0)) }
    } catch {
      // These are the ones up to the damage.
    }
    return ids
  }

  private static func breaker(
    _ id: Int64, on reader: Connection, clock: StoreClock
  ) -> StoredBreaker? {
    do throws(StoreError) {
      guard let found = try BreakerTable.find(id, on: reader, clock: clock),
        OutsideText.complaint(aboutName: found.name) == nil,
        RowExamination.isReadable(found.codeWords ?? ""),
        RowExamination.isReadable(found.operatorWords ?? "")
      else { return nil }
      return found
    } catch {
      return nil
    }
  }

  /// Takes over policies, modes that hold, and the time for which breakers stay open.
  func bring(to storage: SQLiteStorage) throws(StoreError) {
    for breaker in breakers {
      _ = try storage.transact(breaker.name, orCreate: true, wait: .usual) { draft in
        draft.takeOver(breaker)
      }
    }
  }
}

extension BreakerDraft {
  /// Goes on as a breaker of a damaged store stood; what processes have said since stays.
  fileprivate mutating func takeOver(_ other: StoredBreaker) {
    breaker.codeWords = breaker.codeWords ?? other.codeWords
    breaker.operatorWords = breaker.operatorWords ?? other.operatorWords
    breaker.record.totals += other.record.totals
    defer { breaker.record.trips = max(breaker.record.trips, other.record.trips) }
    let reason = "taken over from a damaged store"
    if other.record.mode(at: now.boot) != .automatic, breaker.record.mode.mode == .automatic {
      breaker.record.mode = other.record.mode
      events.append(
        BreakerEvent(
          .mode, from: BreakerMode.automatic.wireName, to: other.record.mode.mode.wireName,
          reason: reason))
    }
    // One that was being probed is due for a probe.
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
