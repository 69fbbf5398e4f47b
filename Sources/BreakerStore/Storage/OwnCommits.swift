/// What the latest commits of this process have written, as long as nobody else commits.
///
/// A transaction that finds the file as the latest of them has left it need not read it again.
struct OwnCommits {
  /// The newest revision of the file; nil if the file is not as it was left.
  private(set) var revision: Int64?
  private var breakers: [StoreName: StoredBreaker] = [:]
  private var fingerprint: UInt64 = 0

  /// Far more than fail at once: a record is not small.
  static let most = 256

  func breaker(_ name: String) -> StoredBreaker? {
    breakers.isEmpty ? nil : breakers[StoreName(name)]
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
    for breaker in written { breakers[StoreName(breaker.name)] = breaker }
  }
}

/// A name by its bytes, as the file compares it: to Swift other bytes can be an equal text.
struct StoreName: Hashable {
  private let name: String

  init(_ name: String) { self.name = name }

  static func == (left: StoreName, right: StoreName) -> Bool {
    left.name.utf8.elementsEqual(right.name.utf8)
  }

  func hash(into hasher: inout Hasher) {
    var name = name
    name.withUTF8 { unsafe hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
  }
}
