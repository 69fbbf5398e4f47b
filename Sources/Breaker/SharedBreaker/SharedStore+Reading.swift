internal import BreakerCore
internal import BreakerStore

/// Reading without changing anything.
extension SharedStore {
  /// Returns the breaker with a name as it stands now, or nil if there is none.
  ///
  /// - Throws: `StoreError` if the store cannot be read.
  public func snapshot(of name: String) throws(StoreError) -> BreakerSnapshot? {
    engine.doRounds()
    return try engine.storage.find(name).map {
      engine.snapshot(of: $0, at: engine.clock.moment, engine.slots(of: [$0]))
    }
  }

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
    // Reading rows in the order of the file is faster than in the order of the names.
    let places = listed.indices.sorted { listed[$0].id < listed[$1].id }
    var snapshots = [BreakerSnapshot?](repeating: nil, count: listed.count)
    for start in stride(from: 0, to: places.count, by: Self.breakersAtOnce) {
      let chunk = places[start..<min(start + Self.breakersAtOnce, places.count)]
      let found = try engine.storage.read(chunk.map { listed[$0] })
      let slots = engine.slots(of: found.compactMap { $0 })
      let now = engine.clock.moment
      for (place, breaker) in zip(chunk, found) {
        guard let breaker else { continue }
        let snapshot = engine.snapshot(of: breaker, at: now, slots)
        // It may have changed its state since it was listed, or by time alone.
        if state == nil || snapshot.state == state { snapshots[place] = snapshot }
      }
    }
    // An array that grows moves every snapshot several times.
    var all: [BreakerSnapshot] = []
    all.reserveCapacity(snapshots.count)
    for case let snapshot? in snapshots { all.append(snapshot) }
    return all
  }

  /// Returns the history of one breaker or of all of them, oldest first.
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

/// A policy that code has declared for a breaker.
public struct PolicyDeclaration: Sendable, Hashable {
  /// The policy in the words of the command line; empty for the default policy.
  public let text: String

  /// Whether this is the declaration that is in force.
  public let isInForce: Bool

  /// When the policy was last declared in place of another one.
  public let at: BreakerTimestamp

  /// The number of the process that declared it then.
  public let pid: Int32

  /// The name of the program that declared it then.
  public let program: String

  init(_ declaration: StoredDeclaration, isInForce: Bool) {
    text = declaration.words
    self.isInForce = isInForce
    at = BreakerTimestamp(millisecondsSince1970: declaration.atMilliseconds)
    pid = declaration.pid
    program = declaration.program
  }
}
