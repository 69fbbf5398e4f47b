package import BreakerCore

/// One breaker as it is stored.
package struct StoredBreaker: Sendable, Hashable {
  package var id: Int64
  package var name: String
  package var revision: Int64

  /// The lineage of the store that it was read from; 0 if that is not known.
  package var lineage: Int64 = 0

  /// What the storage finds recent revisions by.
  package var era: Int64 = 0
  package var createdAtMilliseconds: Int64
  package var record = BreakerRecord()

  /// What code declared last; nil if no code ever did.
  package var codeWords: String?

  /// What an operator has set over it.
  package var operatorWords: String?

  /// What ties the row to its counters in the shared page; 0 if it has none, and negative while
  /// they are not used.
  package var countersKey: Int64 = 0

  /// What the record has taken in of those counters.
  package var takenIn = Counted()

  package init(id: Int64, name: String, createdAtMilliseconds: Int64) {
    self.id = id
    self.name = name
    revision = 0
    self.createdAtMilliseconds = createdAtMilliseconds
  }

  /// When it was last used; nil if it was since it was last written, and nobody knows when.
  package var usedAtMilliseconds: Int64?

  /// How many leases the file holds of it, void ones of an earlier boot included.
  package var leasesInFile = 0

  /// Whether the file holds leases that its record no longer has.
  var hasVoidLeases: Bool { leasesInFile != record.leases.count }

  /// What its words came to when it was read.
  package var agreed = Remembered<AgreedPolicy>()

  /// The policy in force.
  package var policy: BreakerPolicy { agreedPolicy.policy }

  /// The policy in force, with its words.
  package var agreedPolicy: AgreedPolicy {
    if let known = agreed.value, known.codeWords == codeWords,
      known.operatorWords == operatorWords
    {
      return known
    }
    return PolicyCache.shared.policy(of: .init(code: codeWords, operator: operatorWords))
  }
}

/// Something that can be made again from the rest of a value, and so is no part of it.
package struct Remembered<Value: Sendable>: Sendable, Hashable {
  package var value: Value?

  package init(_ value: Value? = nil) { self.value = value }

  package static func == (left: Remembered, right: Remembered) -> Bool { true }

  package func hash(into hasher: inout Hasher) {}
}
