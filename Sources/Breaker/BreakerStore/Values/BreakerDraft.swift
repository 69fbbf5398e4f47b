@_spi(Relay) package import BreakerCore

/// A breaker in the middle of a step: it applies rules of the core, and keeps their events.
package struct BreakerDraft {
  package let now: Moment
  package var breaker: StoredBreaker

  package var events: [BreakerEvent]

  /// Words that code declares, to be kept beside what others declared.
  package var declaration: String?

  /// A command that the step carries out here, to be told to the other hosts of the fleet.
  package var command: GivenCommand?

  /// Creates a draft and applies what time alone has changed since the breaker was last written.
  ///
  /// These events come first, and follow from the policy that was in force until now.
  init(now: Moment, breaker: StoredBreaker, isGone: (ProcessIdentity) -> Bool) {
    self.now = now
    self.breaker = breaker
    events = self.breaker.record.settle(at: now, policy: breaker.policy, isGone: isGone)
  }

  /// Applies a step of the core and keeps its events.
  package mutating func apply<Answer>(
    _ step: (inout BreakerRecord, Moment) -> Step<Answer>
  ) -> Answer {
    let done = step(&breaker.record, now)
    events += done.events
    return done.answer
  }

  /// Applies a rule of the core to the words of the policy, and keeps its events.
  package mutating func agree<Answer, Failure: Error>(
    _ rule: (inout AgreedWords, Moment) throws(Failure) -> Step<Answer>
  ) throws(Failure) -> Answer {
    let done = try rule(&breaker.words, now)
    events += done.events
    return done.answer
  }

  /// Keeps an event that happens now.
  package mutating func note(_ change: BreakerChange, reason: String?) {
    events.append(BreakerEvent(change, reason: reason, atMilliseconds: now.wallMilliseconds))
  }
}

/// The addition of a process to the next step that it takes on a breaker.
package struct OwnShare: Sendable {
  /// The policy that code of the process declares, in words.
  package var declared: String?

  /// Whether the declaration has yet to be written.
  package var isUndeclared: Bool

  /// The counts that the process has kept for itself.
  package var pending: Counted

  package init(declared: String?, isUndeclared: Bool, pending: Counted) {
    self.declared = declared
    self.isUndeclared = isUndeclared
    self.pending = pending
  }
}

extension BreakerDraft {
  /// Adds the counts and the policy that a process has yet to write.
  package mutating func add(_ own: OwnShare) {
    breaker.record.totals += own.pending.totals
    guard let words = own.declared else { return }
    let isInForce = agree { $0.declared(words, isNew: own.isUndeclared, at: $1) }
    if isInForce { declaration = words }
  }
}

/// The steps of the core that a call takes.
extension BreakerDraft {
  /// Decides whether a call may be made; a probe gets a lease.
  package mutating func request(
    by owner: ProcessIdentity?, probeTimeout: Duration?
  ) -> Decision<PermitGrant> {
    let policy = breaker.policy
    return apply { record, now in
      record.requested(at: now, by: owner, probeTimeout: probeTimeout, policy: policy)
    }
  }

  /// Takes the outcome of a call.
  package mutating func report(
    _ outcome: CallOutcome, for grant: PermitGrant, elapsed: Duration?,
    by reporter: ProcessIdentity
  ) -> ReportVerdict {
    let policy = breaker.policy
    return apply { record, now in
      record.reported(
        outcome, for: grant, elapsed: elapsed, at: now, by: reporter, policy: policy,
        jitter: Jitter.drawn())
    }
  }

  /// Takes the loss of calls that were under way when their process ended.
  package mutating func lose(_ lost: LostCalls) {
    let policy = breaker.policy
    apply { record, now in
      record.lost(
        lost.calls, of: lost.processes, at: now, policy: policy, jitter: Jitter.drawn())
    }
  }

  /// Takes a wish of a program or an operator to leave the resource alone.
  package mutating func hold(for wish: CallOutcome.Hold, by giver: HoldGiver) -> HoldEffect {
    let policy = breaker.policy
    return apply { record, now in
      record.heldBack(wish, by: giver, at: now, policy: policy)
    }
  }

  /// Ends a hold by hand; returns false if there was none.
  package mutating func endHold(reason: String?) -> Bool {
    let policy = breaker.policy
    return apply { record, now in record.holdEnded(reason: reason, at: now, policy: policy) }
  }

  /// Closes the breaker and clears its counters.
  package mutating func reset(reason: String?) {
    let policy = breaker.policy
    apply { record, now in record.reset(reason: reason, at: now, policy: policy) }
  }

  /// Gives a probe more time; returns false if it no longer holds its lease.
  package mutating func renew(_ grant: PermitGrant, for time: Duration?) -> Bool {
    let policy = breaker.policy
    return apply { record, now in record.renewed(grant, for: time, at: now, policy: policy) }
  }
}

/// How long a transaction waits for its turn.
package enum Wait: Sendable {
  case usual

  /// Only for a moment, because it can be done later.
  case brief
}

/// The answer of a step, and the breaker as its transaction leaves it.
package struct Transacted<Answer> {
  package var answer: Answer
  package var breaker: StoredBreaker
  package var events: [BreakerEvent]

  /// Why the transaction, which every process sees, may not survive a power cut.
  package var syncError: StoreError?

  /// The fingerprints right before and right after it; nil if another commit has come since.
  package var fingerprints: Fingerprints?

  /// The other breakers that the same transaction has changed, as they stand after it.
  package var others: [StoredBreaker] = []
}

extension Transacted: Sendable where Answer: Sendable {}

/// The fingerprints right before and right after a transaction.
package struct Fingerprints: Sendable, Hashable {
  package var before: UInt64
  package var after: UInt64
}

/// The result of a deletion.
package struct Deletion: Sendable {
  /// False if there was no such breaker, or if it was no longer the version asked for.
  package var isDeleted: Bool

  /// Why the deletion, which every process sees, may not survive a power cut.
  package var syncError: StoreError?

  package init(isDeleted: Bool, syncError: StoreError? = nil) {
    self.isDeleted = isDeleted
    self.syncError = syncError
  }
}

/// A change to apply to the breaker of this name.
package struct NamedStep {
  package var name: String
  package var body: (inout BreakerDraft) -> Void

  package init(_ name: String, _ body: @escaping (inout BreakerDraft) -> Void) {
    self.name = name
    self.body = body
  }
}

/// The result of several steps in one transaction.
package struct TransactedTogether: Sendable {
  /// The names that exist although they must be new; if there are any, nothing was changed.
  package var present: [String] = []

  /// The events of each breaker.
  package var events: [(name: String, events: [BreakerEvent])] = []

  /// The breakers that were changed, as they stand after it.
  package var breakers: [StoredBreaker] = []

  /// Why the transaction, which every process sees, may not survive a power cut.
  package var syncError: StoreError?

  package init(present: [String] = [], syncError: StoreError? = nil) {
    self.present = present
    self.syncError = syncError
  }
}
