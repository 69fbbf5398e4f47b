internal import BreakerCore

/// What a step has come to, when its transaction is over.
struct StepResult {
  /// The breaker as the transaction leaves it, which a later step may have changed again.
  var breaker: StoredBreaker
  var events: [BreakerEvent]
  var syncError: StoreError?
  var fingerprints: Fingerprints?

  /// The other breakers of the transaction.
  var others: [StoredBreaker] = []
}

/// The steps of one transaction, which raise the revision by one between them.
struct StepGroup {
  private let transaction: WriteTransaction
  private var rows: [Row] = []
  private var rowOfStep: [Int?] = []

  /// What is known of the file as this transaction has found it.
  private let remembered: OwnCommits

  /// The revision of the transaction, once it is known.
  private(set) var revision: Int64?

  /// Whether the transaction changes the file at all.
  private(set) var hasWritten = false

  private struct Row {
    let before: StoredBreaker
    let isNew: Bool
    var breaker: StoredBreaker

    /// Whether something was written of it elsewhere: each commit raises the revision.
    var hasNews = false

    var hasChanged: Bool {
      hasNews || breaker != before || before.hasVoidLeases || before.hasFalseTimesInFile
    }
  }

  init(in transaction: WriteTransaction, remembered: OwnCommits) {
    self.transaction = transaction
    self.remembered = remembered
    revision = transaction.revision ?? remembered.revision.map { $0.addingSaturating(1) }
  }

  private var connection: Connection { transaction.connection }
  private var clock: StoreClock { transaction.clock }
  private var now: Moment { transaction.now }

  /// Runs one step after the other and writes what they have decided.
  mutating func run(_ steps: [QueuedStep]) throws(StoreError) {
    for step in steps { rowOfStep.append(try run(step)) }
    for index in rows.indices where rows[index].hasChanged {
      // One transaction, one revision, also if it has just made the row. It never falls, whatever
      // a program that knows nothing of revisions has put there.
      if !rows[index].isNew {
        rows[index].breaker.revision = max(
          try nextRevision(), rows[index].before.revision.addingSaturating(1))
      }
      hasWritten = true
      rows[index].breaker.usedAtMilliseconds = now.wallMilliseconds
      try BreakerTable.save(
        &rows[index].breaker, before: rows[index].before, on: connection, clock: clock)
    }
  }

  private mutating func run(_ step: QueuedStep) throws(StoreError) -> Int? {
    // The step may have run before, in a transaction that was rolled back.
    step.result = nil
    step.error = nil
    guard let body = step.body, let place = try place(of: step) else { return nil }
    var draft = BreakerDraft(
      now: now, breaker: place.breaker, isGone: OwnerJudge(of: connection.path).isGone)
    body(&draft)
    // Nothing of the step is written before it is known that nothing refuses it: it is all in the draft.
    if let command = draft.command {
      let isGiven = try FleetTable.give(
        command, to: step.name, on: connection, in: connection.header(clock), at: now)
      guard isGiven else {
        step.error = .noFleet(path: connection.path)
        return nil
      }
    }
    let index = if let index = place.index { index } else { try make(&draft) }
    try BreakerTable.keep(draft, in: transaction)
    rows[index].breaker = draft.breaker
    rows[index].hasNews =
      rows[index].hasNews || !draft.events.isEmpty || draft.declaration != nil
      || draft.command != nil
    step.result = StepResult(breaker: draft.breaker, events: draft.events)
    return index
  }

  /// The breaker that a step begins with, and where it is among the rows: nowhere if it is yet to be
  /// made; nil if there is none and none may be made.
  private mutating func place(
    of step: QueuedStep
  ) throws(StoreError) -> (breaker: StoredBreaker, index: Int?)? {
    if let index = rows.firstIndex(where: { NameBytes($0.before.name) == NameBytes(step.name) }) {
      return (rows[index].breaker, index)
    }
    if var found = try find(step.name) {
      // Rule of order 13: before the step decides.
      transaction.counterPage.takeIn(to: &found, at: now.boot)
      let before = found
      transaction.counterPage.tie(to: &found, at: now.boot)
      rows.append(Row(before: before, isNew: false, breaker: found))
      return (found, rows.count - 1)
    }
    guard step.orCreate else { return nil }
    // The other steps of the transaction have nothing to do with it.
    guard try StoreRoom.isLeft(on: connection, for: transaction.room) else {
      step.error = StoreRoom.error(path: connection.path, limit: transaction.room)
      return nil
    }
    let made = StoredBreaker(
      named: step.name, madeAt: now, lineage: connection.header(clock).lineage)
    return (made, nil)
  }

  /// Makes the row of a new breaker, and returns where it is among the rows.
  private mutating func make(_ draft: inout BreakerDraft) throws(StoreError) -> Int {
    let revision = try nextRevision()
    var made = StoredBreaker(
      named: draft.breaker.name, madeAt: now, lineage: draft.breaker.lineage)
    try BreakerTable.insert(&made, revision: revision, on: connection, clock: clock, now: now)
    hasWritten = true
    draft.breaker.id = made.id
    draft.breaker.revision = made.revision
    draft.breaker.era = made.era
    transaction.counterPage.tie(to: &draft.breaker, at: now.boot)
    rows.append(Row(before: made, isNew: true, breaker: draft.breaker))
    return rows.count - 1
  }

  private func find(_ name: String) throws(StoreError) -> StoredBreaker? {
    if let known = remembered.breaker(name) { return known }
    return try BreakerTable.find(name, on: connection, clock: clock)
  }

  private mutating func nextRevision() throws(StoreError) -> Int64 {
    if let revision { return revision }
    let next = try BreakerTable.nextRevision(on: connection)
    revision = next
    return next
  }

  /// After the commit: gives every step the breakers as they stand now.
  func deliver(to steps: [QueuedStep], _ fingerprints: Fingerprints?) {
    for (position, step) in steps.enumerated() {
      guard let own = rowOfStep[position] else { continue }
      step.result?.breaker = rows[own].breaker
      step.result?.fingerprints = fingerprints
      guard rows.count > 1 else { continue }
      step.result?.others = rows.indices.filter { $0 != own }.map { rows[$0].breaker }
    }
  }

  /// What the file holds after the commit, as far as it went through here.
  func remember(in commits: inout OwnCommits, _ fingerprints: Fingerprints?) {
    guard let fingerprints, let revision else { return }
    let newest = rows.reduce(revision) { max($0, $1.breaker.revision) }
    commits.note(rows.map(\.breaker), revision: newest, fingerprints)
  }
}
