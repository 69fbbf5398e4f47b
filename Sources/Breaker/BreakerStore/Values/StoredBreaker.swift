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
  private var shared = SharedRecord(BreakerRecord())

  /// The breaker's record.
  package var record: BreakerRecord {
    unsafeAddress { unsafe shared.address }
    unsafeMutableAddress { unsafe shared.ownAddress() }
  }

  /// When the ramp ends that bounds calls, even if it is over by now; nil if there is none.
  package var ramp: Instant? {
    record.state == .closed && record.holds.hold == nil && record.mode.mode != .forcedClosed
      && policy.rampUp != nil ? record.rampUntil : nil
  }

  /// The policy in force, with the words that it comes from.
  package var agreed = AgreedPolicy.unsaid

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

  /// A breaker that is made now and has no id yet.
  init(named name: String, madeAt now: Moment, lineage: Int64) {
    self.init(id: 0, name: name, createdAtMilliseconds: now.wallMilliseconds)
    self.lineage = lineage
    record.tally.since = now.boot
  }

  /// When it was last used; nil if it has been used since it was written, at an unknown time.
  package var usedAtMilliseconds: Int64?

  /// How many of its leases are in the file, including void ones of an earlier boot.
  package var leasesInFile = 0

  /// Whether the file contains times that no process with the host's clock can have written.
  package var hasFalseTimesInFile = false

  /// Whether the file contains leases that the record no longer has.
  var hasVoidLeases: Bool { leasesInFile != record.leases.count }

  /// The words that the policy in force comes from.
  package var words: AgreedWords {
    get { agreed.words }
    set { if newValue != agreed.words { agreed = PolicyCache.shared.policy(of: newValue) } }
  }

  /// The policy in force.
  package var policy: BreakerPolicy { agreed.policy }
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

/// The name of a breaker, and its id, by which to read it.
package struct ListedBreaker: Sendable, Hashable {
  package var id: Int64
  package var name: String

  package init(id: Int64, name: String) {
    self.id = id
    self.name = name
  }
}

/// A policy that code declared, and the process that declared it last.
package struct StoredDeclaration: Sendable, Hashable {
  package var words: String
  package var atMilliseconds: Int64
  package var pid: Int32
  package var program: String
}

/// A breaker's name, compared by its bytes, as in the file; Swift finds some different bytes equal.
package struct NameBytes: Sendable, Hashable {
  private let name: String

  package init(_ name: String) { self.name = name }

  var bytes: String.UTF8View { name.utf8 }

  /// Whether it comes before another name in the order of the file.
  func precedes(_ other: NameBytes) -> Bool { bytes.lexicographicallyPrecedes(other.bytes) }

  package static func == (left: NameBytes, right: NameBytes) -> Bool {
    // Where they lie: taken out of two strings one by one, each byte takes two dozen instructions.
    let isEqual = unsafe left.name.utf8.withContiguousStorageIfAvailable { left in
      unsafe right.name.utf8.withContiguousStorageIfAvailable { right in
        unsafe left.count == right.count && left.elementsEqual(right)
      }
    }
    return isEqual.flatMap { $0 } ?? left.name.utf8.elementsEqual(right.name.utf8)
  }

  package func hash(into hasher: inout Hasher) {
    var name = name
    name.withUTF8 { unsafe hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
  }
}

/// A cache of parsed policies: many breakers share a few, and it takes microseconds to parse one.
final class PolicyCache: Sendable {
  static let shared = PolicyCache()

  /// Far more than code declares; it protects the memory from callers that invent texts.
  static let most = 256

  private let policies = Guarded<[AgreedWords: AgreedPolicy]>([:])

  var count: Int { policies.withLock { $0.count } }

  func policy(of words: AgreedWords) -> AgreedPolicy {
    let known = policies.withLockIfFree { policies in
      if let known = policies[words] { return known }
      let policy = AgreedPolicy(words)
      if policies.count >= Self.most { policies = [:] }
      policies[words] = policy
      return policy
    }
    // A child of a fork may find the lock held forever, and then parses the texts each time.
    return known ?? AgreedPolicy(words)
  }
}
