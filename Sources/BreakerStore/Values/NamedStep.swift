package import BreakerCore

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
