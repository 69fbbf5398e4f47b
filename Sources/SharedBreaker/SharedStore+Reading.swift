internal import BreakerCore
internal import BreakerStore

/// Reading without changing anything.
extension SharedStore {
  /// Returns the breaker with a name as it stands now, or nil if there is none.
  ///
  /// - Throws: `StoreError` if the store cannot be read.
  public func snapshot(of name: String) throws(StoreError) -> BreakerSnapshot? {
    engine.doRounds()
    return try engine.storage.find(name).map { engine.snapshot(of: $0, at: engine.clock.moment) }
  }

  /// Returns what happened to one breaker or to all of them, oldest first.
  ///
  /// The history is bounded: the store keeps the latest 500 entries of a breaker, the latest 100
  /// changes of its policy, and 50,000 entries of all breakers together. The oldest are deleted after
  /// every 32nd entry, so there may be up to 31 more.
  ///
  /// - Parameters:
  ///   - name: The breaker, or nil for all of them.
  ///   - since: The earliest time of interest; nil for everything that is kept.
  ///   - limit: At most this many entries, the newest; nil for all of them.
  /// - Returns: The entries, oldest first.
  /// - Throws: `StoreError` if the store cannot be read.
  public func history(
    of name: String? = nil, since: BreakerTimestamp? = nil, limit: Int? = nil
  ) throws(StoreError) -> [HistoryEntry] {
    engine.doRounds()
    return try engine.storage.history(
      of: name, sinceMilliseconds: since?.millisecondsSince1970, limit: limit
    ).map { HistoryEntry($0, isAfterGap: false) }
  }

  /// Returns the oldest entries after one, and the entry to read on after.
  ///
  /// If the history now ends before that one, another file has taken the place of the store's, and
  /// is read from its beginning.
  package func entries(
    after id: Int64, of name: String?, limit: Int
  ) throws(StoreError) -> (entries: [HistoryEntry], last: Int64) {
    engine.doRounds()
    var batch = try engine.storage.events(after: id, of: name, limit: limit)
    if id != .max, id > batch.newest {
      batch = try engine.storage.events(after: 0, of: name, limit: limit)
    }
    let last = batch.events.count < limit ? batch.newest : batch.events.last?.id ?? batch.newest
    return (batch.events.map { HistoryEntry($0, isAfterGap: false) }, last)
  }

  /// Returns the policies that code has declared for a breaker, the latest last.
  ///
  /// The store keeps the 8 that were declared last.
  ///
  /// - Throws: `StoreError` if the store cannot be read.
  public func declarations(of name: String) throws(StoreError) -> [PolicyDeclaration] {
    engine.doRounds()
    let inForce = try engine.storage.find(name)?.words.code
    return try engine.storage.declarations(of: name).map {
      PolicyDeclaration($0, isInForce: $0.words == inForce)
    }
  }
}
