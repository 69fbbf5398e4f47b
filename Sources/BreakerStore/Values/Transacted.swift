package import BreakerCore

/// How long a transaction waits for its turn.
package enum Wait: Sendable {
  case usual

  /// A moment: if another process is writing now, this can be done later.
  case brief
}

/// What a transaction has answered, and the breaker as it stands after it.
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

/// What has become of a deletion.
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

  /// What happened to each breaker.
  package var events: [(name: String, events: [BreakerEvent])] = []

  /// Why the transaction, which every process sees, may not survive a power cut.
  package var syncError: StoreError?

  package init(present: [String] = [], syncError: StoreError? = nil) {
    self.present = present
    self.syncError = syncError
  }
}
