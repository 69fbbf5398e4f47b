internal import BreakerCore
internal import BreakerStore

/// Everything that an engine guards with its one lock, and what its steps have to tell.
///
/// A step changes it and collects events; the engine tells them when the lock is released.
struct EngineState {
  var knowledge = Knowledge()
  var availability = Availability()
  var outbox = Outbox()
  var unwrittenProbes = UnwrittenProbes()
  private var events: [StoreEvent] = []

  mutating func collect(_ event: StoreEvent?) { if let event { events.append(event) } }

  /// Collects what a commit has to tell: that it may not survive a power cut, and what happened.
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
  /// Takes over what was read of a breaker; what is newer stays.
  ///
  /// - Returns: What is known then; nil if everything was forgotten since the reading began.
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
  /// - Returns: What is known then; nil if it has to be read again.
  mutating func learnThatNobodyWrote(_ cell: Cell, after forgettings: Int64, at now: Moment)
    -> Known?
  {
    guard forgettings == knowledge.forgettings else { return nil }
    // A healthy one may have been created and read meanwhile.
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
    // Rule of order 5: last. A call that fails meanwhile makes every other call go on without the
    // store.
    knowledge.vouch(for: availability.isAvailable ? fingerprint : 0)
    availability.hasConnected()
  }

  mutating func declare(_ policy: BreakerPolicy, for cell: Cell) -> String {
    let words = knowledge.declare(policy, for: cell)
    outbox.note(cell, by: knowledge)
    return words
  }

  /// Notes that the store has had a declaration since a revision, which was read after so many
  /// forgettings.
  mutating func hasDeclared(
    _ words: String, for cell: Cell, at revision: Int64, after forgettings: Int64
  ) {
    // The revisions of a file that has been replaced meanwhile mean nothing in the new one.
    let revision = forgettings == knowledge.forgettings ? revision : .min
    collect(knowledge.hasDeclared(words, for: cell, at: revision))
  }

  /// Keeps counts that could not be written.
  mutating func keep(_ pending: Counted, of cell: Cell) {
    cell.keep(pending)
    outbox.note(cell, by: knowledge)
  }

  /// Goes on without the store: with one breaker if the store has no room for it, else with all.
  mutating func failed(_ error: StoreError, of cell: Cell?, at now: Int64) {
    if let cell, error.kind == .tooManyBreakers {
      collect(availability.hasNoRoom(for: cell, error, at: now))
      // What was known of it let calls through from memory.
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
