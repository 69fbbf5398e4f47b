/// What the latest commits of this process have written, as long as nobody else commits.
///
/// A transaction that finds the file as the latest of them has left it need not read it again.
struct OwnCommits {
  /// The newest revision of the file; nil if the file is not as it was left.
  private(set) var revision: Int64?
  private var breakers: [NameBytes: StoredBreaker] = [:]
  private var fingerprint: UInt64 = 0

  /// Far more than fail at once: a record is not small.
  static let most = 256

  func breaker(_ name: String) -> StoredBreaker? {
    breakers.isEmpty ? nil : breakers[NameBytes(name)]
  }

  /// Forgets everything if the file is not as it was left.
  mutating func check(_ fingerprint: UInt64?) {
    guard fingerprint != self.fingerprint || fingerprint == 0 else { return }
    if revision != nil { self = OwnCommits() }
  }

  /// Notes what a commit has written; what it has not is as it was before.
  mutating func note(
    _ written: [StoredBreaker], revision: Int64, _ fingerprints: Fingerprints
  ) {
    self.revision = revision
    fingerprint = fingerprints.after
    if breakers.count >= Self.most { breakers = [:] }
    for breaker in written { breakers[NameBytes(breaker.name)] = breaker }
  }
}
