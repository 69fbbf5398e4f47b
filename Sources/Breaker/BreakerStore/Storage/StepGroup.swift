internal import BreakerCore

/// The steps of one transaction, which writes each breaker once.
///
/// Every step of every storage is taken here. A step writes nothing until it can no longer be
/// refused, so a refused step does not affect the others.
struct StepGroup {
  private let place: WriteTransaction
  private(set) var rows: [Row] = []

  /// Whether the transaction changes a breaker at all.
  private(set) var hasWritten = false

  /// A breaker that the steps begin with or make.
  struct Row {
    fileprivate let before: StoredBreaker
    fileprivate let isNew: Bool
    fileprivate(set) var breaker: StoredBreaker

    /// Whether the step wrote something besides the row: that raises the revision too.
    fileprivate var hasNews = false

    fileprivate var hasChanged: Bool {
      isNew || hasNews || breaker != before || before.hasVoidLeases || before.hasFalseTimesInFile
    }
  }

  /// The result of a step.
  enum Outcome {
    case taken(row: Int, events: [BreakerEvent])

    /// There is no such breaker, and none may be made.
    case absent
    case refused(StoreError)
  }

  init(in place: WriteTransaction) { self.place = place }

  /// Takes a step; `save()` writes the breakers when all steps are taken.
  mutating func take(
    _ name: String, orCreate: Bool, _ body: (inout BreakerDraft) -> Void
  ) throws(StoreError) -> Outcome {
    let known = try row(of: name)
    if known == nil {
      guard orCreate else { return .absent }
      if let lack = try place.lackOfRoom() { return .refused(lack) }
    }
    let breaker =
      known.map { rows[$0].breaker }
      ?? StoredBreaker(named: name, madeAt: place.now, lineage: place.lineage)
    var draft = BreakerDraft(
      now: place.now, breaker: breaker, isGone: { [place] in place.isGone($0) })
    body(&draft)
    if let command = draft.command, try !place.give(command, to: name) {
      return .refused(.noFleet(path: place.path))
    }
    let row = if let known { known } else { try make(&draft) }
    for event in draft.events { try place.record(event, of: name) }
    if let words = draft.declaration { try place.declare(words, for: draft.breaker) }
    rows[row].breaker = draft.breaker
    if !draft.events.isEmpty || draft.declaration != nil || draft.command != nil {
      rows[row].hasNews = true
    }
    return .taken(row: row, events: draft.events)
  }

  /// Writes every breaker that the steps have changed.
  mutating func save() throws(StoreError) {
    for index in rows.indices where rows[index].hasChanged {
      // A transaction has one revision, which a new row has already. A revision never falls, even if
      // a program that knows nothing of revisions has written a higher one.
      if !rows[index].isNew {
        rows[index].breaker.revision = max(
          place.revision, rows[index].before.revision.addingSaturating(1))
      }
      hasWritten = true
      rows[index].breaker.usedAtMilliseconds = place.now.wallMilliseconds
      try place.save(&rows[index].breaker, before: rows[index].before)
    }
  }

  /// The breakers of the other steps, as the transaction leaves them.
  func breakers(besides own: Int) -> [StoredBreaker] {
    rows.count > 1 ? rows.indices.filter { $0 != own }.map { rows[$0].breaker } : []
  }

  /// The index of the row that a step begins with; nil if the breaker does not exist yet.
  private mutating func row(of name: String) throws(StoreError) -> Int? {
    if let index = rows.firstIndex(where: { NameBytes($0.before.name) == NameBytes(name) }) {
      return index
    }
    // Rule of order 13: what was counted is taken in before the step decides.
    guard let found = try place.find(name) else { return nil }
    var breaker = found
    place.tie(&breaker)
    rows.append(Row(before: found, isNew: false, breaker: breaker))
    return rows.count - 1
  }

  /// Makes the row of a new breaker, and returns its index.
  private mutating func make(_ draft: inout BreakerDraft) throws(StoreError) -> Int {
    var made = StoredBreaker(
      named: draft.breaker.name, madeAt: place.now, lineage: draft.breaker.lineage)
    try place.insert(&made)
    hasWritten = true
    draft.breaker.id = made.id
    draft.breaker.revision = made.revision
    draft.breaker.era = made.era
    place.tie(&draft.breaker)
    rows.append(Row(before: made, isNew: true, breaker: draft.breaker))
    return rows.count - 1
  }
}

extension WriteTransaction {
  /// Takes a single step; nil if there is no such breaker, and none may be made.
  ///
  /// - Throws: Why the step is refused, before anything is written of it.
  func take(
    _ name: String, orCreate: Bool, _ body: (inout BreakerDraft) -> Void
  ) throws(StoreError) -> TakenStep? {
    var group = StepGroup(in: self)
    switch try group.take(name, orCreate: orCreate, body) {
    case .absent: return nil
    case .refused(let error): throw error
    case .taken(let row, let events):
      try group.save()
      return TakenStep(
        breaker: group.rows[row].breaker, events: events, hasWritten: group.hasWritten)
    }
  }
}

/// The result of a single step.
struct TakenStep {
  /// The breaker as the step leaves it.
  let breaker: StoredBreaker
  let events: [BreakerEvent]

  /// Whether the step has written anything.
  let hasWritten: Bool
}
