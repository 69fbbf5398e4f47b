internal import BreakerCore
internal import BreakerStore

/// Everything that an engine guards with its one lock.
///
/// A step changes it and collects events, which the engine reports once it has released the lock.
struct EngineState {
  var knowledge = Knowledge()
  var availability = Availability()
  var outbox = Outbox()
  var unwrittenProbes = UnwrittenProbes()
  private var events: [StoreEvent] = []

  mutating func collect(_ event: StoreEvent?) { if let event { events.append(event) } }

  /// Collects what happened in a commit, and that it may not survive a power cut.
  mutating func collect(
    _ happened: [(name: String, events: [BreakerEvent])], _ syncError: StoreError?
  ) {
    collect(syncError.map { .notDurable($0) })
    for (name, events) in happened { collect(events, of: name, isAlone: false) }
  }

  /// Collects the changes of state among the events of a breaker of the store, or of this process alone.
  mutating func collect(_ happened: [BreakerEvent], of name: String, isAlone: Bool) {
    for event in happened {
      let (from, to): (BreakerState, BreakerState)
      switch event.change {
      case .transition(let before, let after), .suspicion(let before, let after):
        (from, to) = (before, after)
      default: continue
      }
      let reason = event.reason ?? ""
      collect(
        isAlone
          ? .transitionAlone(name: name, from: from, to: to, reason: reason)
          : .transition(name: name, from: from, to: to, reason: reason))
    }
  }

  mutating func takeEvents() -> [StoreEvent] {
    if events.isEmpty { return [] }
    defer { events = [] }
    return events
  }
}

/// Steps that concern more than one of its parts.
extension EngineState {
  /// Takes over a reading of a breaker, unless a newer one is known.
  ///
  /// - Returns: The breaker as known then; nil if everything was forgotten since the reading began.
  mutating func learn(_ read: Known, of cell: Cell, after forgettings: Int64, keeping: Bool)
    -> Known?
  {
    guard forgettings == knowledge.forgettings else { return nil }
    collect(knowledge.learn(read, of: cell, keeping: keeping))
    outbox.note(cell, by: knowledge)
    return knowledge[cell].known ?? read
  }

  /// Takes over that the store has no such breaker.
  ///
  /// - Returns: The breaker as known then; nil if it has to be read again.
  mutating func learnThatNobodyWrote(_ cell: Cell, after forgettings: Int64, at now: Moment)
    -> Known?
  {
    guard forgettings == knowledge.forgettings else { return nil }
    // A healthy breaker may have been created and read meanwhile.
    let memory = knowledge[cell]
    if memory.known == nil, memory.revision != .min { return nil }
    let known = memory.known ?? knowledge.unwritten(cell, at: now)
    // A breaker that goes on alone is never permitted from memory.
    guard availability.reasonAlone(cell) == nil else { return known }
    knowledge.memorize(known, of: cell, keeping: true)
    outbox.note(cell, by: knowledge)
    return known
  }

  /// Takes over everything that changed, and vouches for it if the store can be used.
  mutating func takeOver(
    _ changes: StoreChanges, _ read: [Known], since baseline: Knowledge.Baseline?,
    fingerprint: UInt64
  ) {
    for event in knowledge.takeOver(changes, read, since: baseline) { collect(event) }
    for known in read {
      if let cell = knowledge.cells[known.breaker.name] { outbox.note(cell, by: knowledge) }
    }
    // Rule of order 5: last. If a call has failed meanwhile, every call goes on without the store.
    knowledge.vouch(for: availability.isAvailable ? fingerprint : 0)
    availability.hasConnected()
  }

  mutating func declare(_ policy: BreakerPolicy, for cell: Cell) -> String {
    let words = knowledge.declare(policy, for: cell)
    outbox.note(cell, by: knowledge)
    return words
  }

  /// Notes that the store has had a declaration since a revision.
  mutating func hasDeclared(
    _ words: String, for cell: Cell, at revision: Int64, after forgettings: Int64
  ) {
    // If the file has been replaced meanwhile, its revision means nothing in the new one.
    let revision = forgettings == knowledge.forgettings ? revision : .min
    collect(knowledge.hasDeclared(words, for: cell, at: revision))
  }

  /// Keeps counts that could not be written.
  mutating func keep(_ pending: Counted, of cell: Cell) {
    cell.keep(pending)
    outbox.note(cell, by: knowledge)
  }

  /// Goes on without the store: with one breaker if the store has no room for it, otherwise with all.
  mutating func failed(_ error: StoreError, of cell: Cell?, at now: Int64) {
    if let cell, error.kind == .tooManyBreakers {
      collect(availability.hasNoRoom(for: cell, error, at: now))
      // Old knowledge of it would let calls through from memory.
      knowledge.forget(cell)
    } else {
      collect(availability.failed(error, at: now))
      knowledge.forgetBaseline()
    }
  }

  mutating func recovered() {
    collect(availability.recovered())
    knowledge.forgetBaseline()
  }
}

/// The cells for which this process may have something to write: counts, or a declaration.
struct Outbox {
  private var entries: [Entry] = []
  private var noted: Set<ObjectIdentifier> = []

  private struct Entry {
    let cell: Cell

    /// How many times in a row there was nothing to write.
    var quietRounds: UInt8 = 0

    /// Whether the cell can be dropped, because no call can still be adding to the process's own counts.
    var isWritten: Bool { quietRounds >= 2 }
  }

  var cells: [Cell] { entries.map(\.cell) }

  /// Adds a cell if it may have something to write.
  mutating func note(_ cell: Cell, by knowledge: Knowledge) {
    guard Self.mayHaveToWrite(cell, knowledge) else { return }
    guard noted.insert(ObjectIdentifier(cell)).inserted else { return }
    entries.append(Entry(cell: cell))
  }

  /// Drops cells that have had nothing to write for two rounds.
  mutating func forgetWritten(by knowledge: Knowledge) {
    if entries.isEmpty { return }
    for index in entries.indices {
      let isQuiet = !Self.mayHaveToWrite(entries[index].cell, knowledge)
      entries[index].quietRounds = isQuiet ? entries[index].quietRounds + 1 : 0
    }
    for entry in entries where entry.isWritten { noted.remove(ObjectIdentifier(entry.cell)) }
    entries.removeAll(where: \.isWritten)
  }

  private static func mayHaveToWrite(_ cell: Cell, _ knowledge: Knowledge) -> Bool {
    knowledge[cell].isUndeclared || cell.mayHavePending
  }
}

/// The outcomes of probes that ended while the store could not be written.
///
/// Everything else that is counted without the store is forgotten. But a probe holds a slot in the
/// store, and every process would wait for that slot until the probe's deadline.
struct UnwrittenProbes {
  private var entries: [Entry] = []

  final class Entry: Sendable {
    let cell: Cell
    let report: Engine.Report

    init(_ report: Engine.Report, of cell: Cell) { (self.report, self.cell) = (report, cell) }
  }

  /// More than a process ever has under way; beyond that, a probe's deadline frees its slot.
  private static let room = 1_000

  var first: Entry? { entries.first }

  mutating func note(_ report: Engine.Report, of cell: Cell) {
    if entries.count < Self.room { entries.append(Entry(report, of: cell)) }
  }

  /// Removes an entry that was written, perhaps by another thread too.
  mutating func remove(_ entry: Entry) { entries.removeAll { $0 === entry } }
}
