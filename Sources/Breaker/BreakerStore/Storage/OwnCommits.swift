internal import BreakerCore

/// The rows that the latest commits of this process have written, as long as no other process commits.
///
/// A transaction that finds the file as the latest of them has left it need not read it again.
final class OwnCommits {
  /// The newest revision of the file; nil if the file is not as it was left.
  private(set) var revision: Int64?
  private var breakers: [NameBytes: StoredBreaker] = [:]
  private var fingerprint: UInt64 = 0

  /// Far more breakers than fail at the same time; a record is not small.
  static let most = 256

  func breaker(_ name: String) -> StoredBreaker? {
    breakers.isEmpty ? nil : breakers[NameBytes(name)]
  }

  /// Forgets everything if the file is not as it was left.
  func check(_ fingerprint: UInt64?) {
    guard fingerprint != self.fingerprint || fingerprint == 0 else { return }
    if revision != nil { forget() }
  }

  func forget() {
    revision = nil
    breakers = [:]
    fingerprint = 0
  }

  /// Notes what a commit has written; all other breakers are as they were.
  func note(
    _ written: [StoredBreaker], revision: Int64, _ fingerprints: Fingerprints
  ) {
    self.revision = written.reduce(revision) { max($0, $1.revision) }
    fingerprint = fingerprints.after
    if breakers.count >= Self.most { breakers = [:] }
    for breaker in written { breakers[NameBytes(breaker.name)] = breaker }
  }
}
