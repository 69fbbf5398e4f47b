internal import BreakerCore
internal import BreakerStore

/// Looking at many breakers.
extension SharedStore {
  /// How many breakers are read at once: in between, others write and the log can start anew.
  private static let breakersAtOnce = 500

  /// The names of all breakers, or of those that begin with a text; in the order of their bytes.
  ///
  /// - Throws: `StoreError` if the store cannot be read.
  public func names(beginningWith prefix: String = "") throws(StoreError) -> [String] {
    engine.doRounds()
    return try engine.storage.list(beginningWith: prefix, in: nil).map(\.name)
  }

  /// Breakers as they stand now, in the order of their names' bytes; all of them if none are chosen.
  ///
  /// Reading takes as long as there are breakers to read, so it pays to choose. A breaker is read
  /// whole, but not all at the same moment, so that a large store never holds its writers up.
  ///
  /// - Parameters:
  ///   - prefix: What the names begin with.
  ///   - state: The state that the breakers are in; nil for any.
  ///   - isWanted: Whether the breaker of a name is to be read.
  /// - Returns: The breakers that all of it applies to, each of them once.
  /// - Throws: `StoreError` if the store cannot be read.
  public func snapshots(
    beginningWith prefix: String = "", in state: BreakerState? = nil,
    where isWanted: (String) -> Bool = { _ in true }
  ) throws(StoreError) -> [BreakerSnapshot] {
    engine.doRounds()
    let listed = try engine.storage.list(beginningWith: prefix, in: state)
      .filter { isWanted($0.name) }
    // The file is read from one end to the other, whatever the order of the names.
    let places = listed.indices.sorted { listed[$0].id < listed[$1].id }
    var snapshots = [BreakerSnapshot?](repeating: nil, count: listed.count)
    for start in stride(from: 0, to: places.count, by: Self.breakersAtOnce) {
      let chunk = places[start..<min(start + Self.breakersAtOnce, places.count)]
      let found = try engine.storage.read(chunk.map { listed[$0] })
      let now = engine.clock.moment
      for (place, breaker) in zip(chunk, found) {
        guard let breaker else { continue }
        let snapshot = engine.snapshot(of: breaker, at: now)
        // What has changed its state since it was listed, or by time alone, is not asked for.
        if state == nil || snapshot.state == state { snapshots[place] = snapshot }
      }
    }
    return snapshots.compactMap { $0 }
  }
}
