package import BreakerCore

/// One breaker as it is stored.
package struct StoredBreaker: Sendable, Hashable {
  package var id: Int64
  package var name: String
  package var revision: Int64

  /// The lineage of the store that it was read from; 0 if unknown.
  package var lineage: Int64 = 0

  /// A coarse form of the revision, by which the storage finds recent changes.
  package var era: Int64 = 0
  package var createdAtMilliseconds: Int64
  package var record = BreakerRecord()

  /// The text of the policy that code declared last; nil if no code ever declared one.
  package var codeWords: String?

  /// The text of the values that an operator has set over it.
  package var operatorWords: String?

  /// The key that ties the row to its counters in the counter page; 0 if it has none.
  ///
  /// It is negative while the counters are not used.
  package var countersKey: Int64 = 0

  /// How much of those counters the record has taken in.
  package var takenIn = Counted()

  package init(id: Int64, name: String, createdAtMilliseconds: Int64) {
    self.id = id
    self.name = name
    revision = 0
    self.createdAtMilliseconds = createdAtMilliseconds
  }

  /// When it was last used; nil if it has been used since it was written, at an unknown time.
  package var usedAtMilliseconds: Int64?

  /// How many of its leases are in the file, including void ones of an earlier boot.
  package var leasesInFile = 0

  /// Whether the file contains leases that the record no longer has.
  var hasVoidLeases: Bool { leasesInFile != record.leases.count }

  /// The policy as parsed when the breaker was read.
  package var agreed = Remembered<AgreedPolicy>()

  /// The policy in force.
  package var policy: BreakerPolicy { agreedPolicy.policy }

  /// The policy in force, with the texts that it comes from.
  package var agreedPolicy: AgreedPolicy {
    if let known = agreed.value, known.codeWords == codeWords,
      known.operatorWords == operatorWords
    {
      return known
    }
    return PolicyCache.shared.policy(of: .init(code: codeWords, operator: operatorWords))
  }
}

/// A value that can be derived from the rest of its owner, so it does not take part in comparisons.
package struct Remembered<Value: Sendable>: Sendable, Hashable {
  package var value: Value?

  package init(_ value: Value? = nil) { self.value = value }

  package static func == (left: Remembered, right: Remembered) -> Bool { true }

  package func hash(into hasher: inout Hasher) {}
}

/// Identifies a version of a breaker, which changes when the breaker is used or changed.
package struct StoredVersion: Sendable, Hashable {
  private let lineage: Int64
  private let id: Int64
  private let revision: Int64
  private let counted: Counted

  package init(of breaker: StoredBreaker) {
    lineage = breaker.lineage
    id = breaker.id
    revision = breaker.revision
    counted = breaker.takenIn
  }
}

/// A breaker, and where it is found.
package struct ListedBreaker: Sendable, Hashable {
  package var id: Int64
  package var name: String

  package init(id: Int64, name: String) {
    self.id = id
    self.name = name
  }
}

/// A policy that code declared, and who was the last to declare it.
package struct StoredDeclaration: Sendable, Hashable {
  package var words: String
  package var atMilliseconds: Int64
  package var pid: Int32
  package var program: String
}
