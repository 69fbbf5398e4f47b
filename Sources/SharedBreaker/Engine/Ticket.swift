internal import BreakerCore
internal import BreakerStore

/// A call that was permitted: everything that is needed to take its outcome.
struct Ticket: Sendable {
  var grant: PermitGrant

  /// The row of the breaker, and the lineage of its store; 0 if they are not known.
  var breaker: Int64 = 0
  var lineage: Int64 = 0

  /// The word of a call that was permitted from memory, which knows the row by a few bits.
  var word = CellWord.unknown
  var source: Source

  /// When the call began, if the policy looks at how long calls take.
  var start: Instant?

  /// The fork depth of the process that got the ticket: a child does not own it.
  var forkDepth = ForkGuard.depth

  enum Source: Sendable {
    case store

    /// The breaker of this process alone.
    case local

    /// No breaker at all: the outcome is discarded.
    case none
  }

  /// The ticket for a permit that a breaker has granted.
  init(_ grant: PermitGrant, of breaker: StoredBreaker, from source: Source) {
    self.init(grant, breaker: breaker.id, lineage: breaker.lineage, from: source)
  }

  /// The ticket for a permit of a breaker that is known by its numbers, or not at all.
  init(_ grant: PermitGrant, breaker: Int64 = 0, lineage: Int64 = 0, from source: Source) {
    self.grant = grant
    self.breaker = breaker
    self.lineage = lineage
    self.source = source
  }

  /// The ticket that a word of the healthy path stands for.
  init(_ word: CellWord) {
    self.init(PermitGrant(kind: .normal, generation: word.generation), from: .store)
    self.word = word
  }

  init(_ call: HealthyCall) {
    let word = CellWord(bits: call.word)
    self.init(word)
    start = word.has(CellWord.measures) ? Instant(nanoseconds: call.start) : nil
  }
}

extension Ticket {
  /// Whether it belongs to this process, and not to one that this process was forked from.
  var isOwn: Bool {
    forkDepth == ForkGuard.depth && (word == .unknown || word.isOwn)
  }

  /// The grant, as far as it is good for a breaker.
  ///
  /// A breaker of another store, or one that was deleted and created again under the same name, did
  /// not give it: the outcome moves no state then.
  func grant(on breaker: StoredBreaker) -> PermitGrant {
    let isOther =
      self.breaker != 0 && (self.breaker != breaker.id || lineage != breaker.lineage)
    guard isOther || !word.mayBe(of: breaker) else { return grant }
    var grant = grant
    grant.generation = PermitGrant.unjudged
    grant.lease = 0
    return grant
  }
}
