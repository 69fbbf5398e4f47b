internal import BreakerCore
internal import BreakerStore

/// This process's knowledge of the breakers of its store, and how current it is.
///
/// A value without locks: the engine guards it, publishes what healthy calls read, and tells the
/// observer about the events that its functions return. Its only effect is on cells: it alone changes
/// their memory, and they show healthy calls what was learned.
struct Knowledge {
  private(set) var cells = CellTable()

  /// How often everything was forgotten; nothing read before that is learned after it (rule of order
  /// 8).
  private(set) var forgettings: Int64 = 0

  /// The fingerprint of the store up to which every cell is current; 0 if none is.
  private(set) var vouched: UInt64 = 0

  /// The cells of breakers that have had a limit, of which the slots have to be looked after.
  ///
  /// Not a set, whose type would cost each process a search through all conformances.
  private(set) var limited: [Cell] = []

  /// Up to where the changes of the store have been read.
  private(set) var baseline: Baseline?

  /// The policy that was declared last, because many breakers are declared with the same one.
  private var latestDeclared: (policy: BreakerPolicy, words: String)?

  struct Baseline {
    var continuity: Int64
    var revision: Int64
    var deletedRevision: Int64
  }

  /// The cell of a name, which is created if there is none.
  mutating func cell(_ name: String) -> Cell {
    if let cell = cells[name] { return cell }
    let cell = Cell(name: name)
    cells.insert(cell)
    return cell
  }
}

/// Learning and forgetting.
extension Knowledge {
  /// Takes over a reading of a breaker, unless a newer one is known.
  ///
  /// - Parameters:
  ///   - read: The reading.
  ///   - cell: The cell of the breaker.
  ///   - keeping: Whether the record of a healthy breaker is to be kept, because it will be needed.
  /// - Returns: The event to report if another policy has replaced the one that is declared here.
  mutating func learn(_ read: Known, of cell: Cell, keeping: Bool) -> StoreEvent? {
    // If the breaker is known not to exist, a row from before the latest deletion is an old
    // reading.
    let latest =
      self[cell].known?.exists == false ? baseline?.deletedRevision ?? 0 : self[cell].revision
    guard read.breaker.revision >= latest else { return nil }
    memorize(read, of: cell, keeping: keeping)
    return overruling(of: cell)
  }

  /// Takes over what is known of a breaker, and shows it to healthy calls.
  mutating func memorize(_ known: Known, of cell: Cell, keeping: Bool) {
    // A call that finds no room has to know the mode.
    let isPlain =
      known.word.has(CellWord.countsOnly) && known.breaker.record.mode.mode == .automatic
    self[cell].takeOver(known, keeping: keeping || !isPlain)
    cell.show(known)
    guard known.limit != nil, !self[cell].isListed else { return }
    self[cell].isListed = true
    limited.append(cell)
  }

  /// The breaker as last known; this reads nothing.
  func lastKnown(_ cell: Cell, at now: Moment) -> Known {
    if let known = self[cell].known { return known }
    return remembered(cell).map { Known($0, exists: true) } ?? unwritten(cell, at: now)
  }

  /// A breaker that no process has written yet.
  func unwritten(_ cell: Cell, at now: Moment) -> Known {
    var breaker = StoredBreaker(
      id: 0, name: cell.name, createdAtMilliseconds: now.wallMilliseconds)
    breaker.words.code = self[cell].declaration?.words
    return Known(breaker, exists: false)
  }

  /// A healthy breaker, as far as its record is kept.
  private func remembered(_ cell: Cell) -> StoredBreaker? {
    guard let agreed = self[cell].agreed else { return nil }
    var breaker = StoredBreaker(id: 0, name: cell.name, createdAtMilliseconds: 0)
    breaker.record.generation = max(1, cell.word.generation)
    breaker.agreed = agreed
    return breaker
  }

  /// Forgets a breaker, which is read again when it is used.
  mutating func forget(_ cell: Cell) {
    var memory = self[cell]
    memory.known = nil
    memory.revision = .min
    // The revisions of another file may be lower.
    if memory.declaration?.since != nil { memory.declaration?.since = .min }
    self[cell] = memory
    cell.hide()
  }

  /// Forgets every breaker.
  mutating func forgetAll() {
    forgettings += 1
    for cell in cells.cells { forget(cell) }
  }

  /// Makes the next call read everything from the beginning.
  mutating func forgetBaseline() {
    vouched = 0
    baseline = nil
  }
}

/// Keeping up with the store.
extension Knowledge {
  /// Takes over everything that changed since the last time.
  ///
  /// - Parameters:
  ///   - changes: The changes.
  ///   - read: The breakers that changed, as they are now.
  ///   - since: The baseline from which the changes were asked for.
  /// - Returns: The events to report for declarations that were overruled.
  mutating func takeOver(
    _ changes: StoreChanges, _ read: [Known], since: Baseline?
  ) -> [StoreEvent] {
    // The changes alone do not show what was deleted, or what an older copy of the file holds.
    let isContinued =
      since?.continuity == changes.continuity && since?.deletedRevision == changes.deletedRevision
      && changes.revision >= since?.revision ?? .max
    if !isContinued { forgetAll() }
    baseline = Baseline(
      continuity: changes.continuity, revision: changes.revision,
      deletedRevision: changes.deletedRevision)
    guard isContinued else { return [] }
    return read.compactMap { read in
      cells[read.breaker.name].flatMap { learn(read, of: $0, keeping: self[$0].known != nil) }
    }
  }

  /// Vouches for every cell as long as the store has this fingerprint.
  mutating func vouch(for fingerprint: UInt64) { vouched = fingerprint }

  /// Stays current after a commit of this process, if nothing else has happened in between.
  ///
  /// Reading back what was just written would take a third of the time of a call that fails. Rule of
  /// order 7 says what has to be compared.
  mutating func goOn(over commit: Fingerprints, at revision: Int64, after forgettings: Int64) {
    // Rule of order 8: if everything was forgotten meanwhile, what was written has not been learned.
    guard forgettings == self.forgettings, let known = baseline,
      known.revision.addingSaturating(1) == revision,
      vouched == commit.before, vouched != 0
    else { return }
    baseline?.revision = revision
    vouched = commit.after
  }
}

/// Policies that code declares.
extension Knowledge {
  /// Notes the policy that code declares, and returns it in words.
  mutating func declare(_ policy: BreakerPolicy, for cell: Cell) -> String {
    let words = words(of: policy)
    self[cell].declaration = .init(words: words)
    // A breaker that no process has written yet has the policy that this process declares.
    if self[cell].known?.exists == false { forget(cell) }
    return words
  }

  /// The words of a policy; all breakers that are declared with it share the string.
  private mutating func words(of policy: BreakerPolicy) -> String {
    if let latestDeclared, latestDeclared.policy == policy { return latestDeclared.words }
    let words = PolicyWords(of: policy).description
    latestDeclared = (policy, words)
    return words
  }

  /// Notes that the store has had a declaration since a revision.
  ///
  /// - Returns: The event to report if a later declaration was already read.
  mutating func hasDeclared(_ words: String, for cell: Cell, at revision: Int64) -> StoreEvent? {
    guard let declaration = self[cell].declaration, declaration.words == words,
      declaration.since == nil
    else { return nil }
    self[cell].declaration?.since = revision
    return overruling(of: cell)
  }

  /// The event to report if a declaration that came after the one made here has taken its place.
  ///
  /// Words that were in force before are not news, because this process has replaced them or is about
  /// to.
  private mutating func overruling(of cell: Cell) -> StoreEvent? {
    guard let declaration = self[cell].declaration, let since = declaration.since,
      self[cell].revision >= since, let inForce = self[cell].agreed?.words.code
    else { return nil }
    self[cell].declaration?.isOverruled = declaration.words != inForce
    guard declaration.words != inForce, !declaration.isOverruled else { return nil }
    return .policyDiffers(name: cell.name, declaredHere: declaration.words, inForce: inForce)
  }
}

/// A breaker as this process has last read it.
final class Known: Sendable {
  let breaker: StoredBreaker

  /// Whether the breaker is in the store; false before its first call.
  let exists: Bool

  /// Where all processes count successes; nil if the breaker has no shared counters.
  let counters: Counters?

  /// The limit of its calls; nil if it has none, or if there is no place to keep it.
  let limit: CellLimit?

  init(
    _ breaker: StoredBreaker, exists: Bool, counters: Counters? = nil, limit: CellLimit? = nil
  ) {
    self.breaker = breaker
    self.exists = exists
    self.counters = counters
    self.limit = limit
  }

  var policy: BreakerPolicy { breaker.policy }

  /// The record as it stands at an instant.
  func record(at now: Moment, isGone: (ProcessIdentity) -> Bool) -> BreakerRecord {
    breaker.record.settled(at: now, policy: policy, isGone: isGone)
  }

  /// Whether callers wait for room: the breaker permits calls if there is room, and its mode does not only
  /// observe.
  var letsCallersWait: Bool {
    (word.has(CellWord.permitsWithinLimit) || breaker.ramp != nil)
      && breaker.record.mode.mode != .observe
  }

  /// The word of the breaker for healthy calls.
  var word: CellWord {
    // The first call creates the breaker, so that other processes can find it.
    guard exists else { return .unknown }
    // Each field by itself: a method of the record would get a copy, which counts a dozen references.
    if rejectsUntil != nil {
      let isHeld = breaker.record.state == .closed
      // A call that may wait for the end of a hold is not rejected without a look at its time.
      if isHeld, limit?.patience != nil { return CellWord(flags: 0, of: breaker) }
      return CellWord(flags: CellWord.rejects | (isHeld ? CellWord.isHeld : 0), of: breaker)
    }
    let permits =
      breaker.record.state == .closed && breaker.record.mode.mode.isJudging
      && breaker.record.holds.hold?.until == nil && breaker.record.rampUntil == nil
      && breaker.record.generation <= CellWord.latestGeneration
      && CellWord.knowsThisFork
    let hasWindow = !CallWindow.none.fits(policy)
    let countsOnly =
      permits && breaker.record.streakStartedAt == nil && breaker.record.holds.unnamed == 0
      && (!hasWindow && policy.retryBudget == nil || counters != nil)
    let permission = limit == nil ? CellWord.permits : CellWord.permitsWithinLimit
    let flags =
      (permits ? permission : 0) | (countsOnly ? CellWord.countsOnly : 0)
      | (policy.slowAfter != nil ? CellWord.measures : 0)
      | (policy.marksSuccesses ? CellWord.marks : 0)
    return CellWord(flags: flags, of: breaker)
  }

  /// Until when all calls are rejected, for one cause and with no reason to tell; nil if that takes a look at each
  /// call.
  var rejectsUntil: Instant? {
    guard breaker.record.mode.mode == .automatic else { return nil }
    let heldUntil = breaker.record.holds.hold?.until
    switch breaker.record.state {
    case .closed:
      guard let heldUntil else { return nil }
      let hasReason =
        breaker.record.holds.hold?.isByHand == true && breaker.record.holds.hold?.reason != nil
      return hasReason ? nil : heldUntil
    case .open:
      guard breaker.record.openReason == nil, let openUntil = breaker.record.openUntil else {
        return nil
      }
      if let heldUntil, heldUntil > openUntil { return nil }
      return openUntil
    case .halfOpen: return nil
    }
  }
}

/// Cells by the bytes of their names.
///
/// A dictionary would keep a second copy of each name, and the name takes most of a cell's memory.
struct CellTable {
  private var slots: [Cell?] = Array(repeating: nil, count: 16)
  private(set) var count = 0

  /// The cell of a name, or nil if there is none.
  subscript(name: String) -> Cell? { slots[slot(of: name)] }

  /// Every cell, in no order.
  var cells: some Sequence<Cell> { slots.lazy.compactMap { $0 } }

  /// Adds a cell; there must be none with its name.
  mutating func insert(_ cell: Cell) {
    // At least a quarter of the slots stay free, so that searches are short.
    if (count + 1) * 4 > slots.count * 3 { grow() }
    slots[slot(of: cell.name)] = cell
    count += 1
  }

  /// Where the cell of a name is, or would be.
  private func slot(of name: String) -> Int {
    let mask = slots.count - 1
    let name = NameBytes(name)
    var index = name.hashValue & mask
    while let cell = slots[index], NameBytes(cell.name) != name {
      index = (index + 1) & mask
    }
    return index
  }

  private mutating func grow() {
    let earlier = slots
    slots = Array(repeating: nil, count: 2 * earlier.count)
    for case let cell? in earlier { slots[slot(of: cell.name)] = cell }
  }
}
