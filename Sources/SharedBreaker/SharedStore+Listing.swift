internal import BreakerCore
internal import BreakerStore

/// Listing breakers.
extension SharedStore {
  /// How many breakers are read at once.
  ///
  /// Between two reads other processes can write, and the log can start from its beginning again.
  private static let breakersAtOnce = 500

  /// Returns the names of all breakers, or of those that begin with a text, in byte order.
  ///
  /// - Throws: `StoreError` if the store cannot be read.
  public func names(beginningWith prefix: String = "") throws(StoreError) -> [String] {
    engine.doRounds()
    return try engine.storage.list(beginningWith: prefix, in: nil).map(\.name)
  }

  /// Returns snapshots of breakers, in the byte order of their names.
  ///
  /// ```swift
  /// let open = try store.snapshots(beginningWith: "eu.", in: .open)
  /// ```
  ///
  /// The time this takes grows with the number of breakers read, so select the ones you need. Each
  /// snapshot is consistent in itself. Different breakers are read at different moments, so that
  /// reading a large store never blocks its writers.
  ///
  /// - Parameters:
  ///   - prefix: The text that the names begin with.
  ///   - state: The state that the breakers are in; nil for any.
  ///   - isWanted: Whether to read the breaker with a name.
  /// - Returns: The breakers that meet all three conditions, each of them once.
  /// - Throws: `StoreError` if the store cannot be read.
  public func snapshots(
    beginningWith prefix: String = "", in state: BreakerState? = nil,
    where isWanted: (String) -> Bool = { _ in true }
  ) throws(StoreError) -> [BreakerSnapshot] {
    engine.doRounds()
    let listed = try engine.storage.list(beginningWith: prefix, in: state)
      .filter { isWanted($0.name) }
    // Rows are read in the order of the file, which is faster than in the order of the names.
    let places = listed.indices.sorted { listed[$0].id < listed[$1].id }
    var snapshots = [BreakerSnapshot?](repeating: nil, count: listed.count)
    for start in stride(from: 0, to: places.count, by: Self.breakersAtOnce) {
      let chunk = places[start..<min(start + Self.breakersAtOnce, places.count)]
      let found = try engine.storage.read(chunk.map { listed[$0] })
      let now = engine.clock.moment
      for (place, breaker) in zip(chunk, found) {
        guard let breaker else { continue }
        let snapshot = engine.snapshot(of: breaker, at: now)
        // It may have changed its state since it was listed, or by time alone.
        if state == nil || snapshot.state == state { snapshots[place] = snapshot }
      }
    }
    return snapshots.compactMap { $0 }
  }
}
