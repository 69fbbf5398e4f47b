internal import BreakerCore

/// Parsed policies, because many breakers share a few and parsing one takes microseconds.
@safe final class PolicyCache: Sendable {
  static let shared = PolicyCache()

  /// Far more than code declares; callers that invent new texts must not exhaust the memory.
  static let most = 256

  private let lock = Lock()
  private nonisolated(unsafe) var policies: [AgreedWords: AgreedPolicy] = [:]

  var count: Int { lock.withLock { unsafe policies.count } }

  func policy(of words: AgreedWords) -> AgreedPolicy {
    // A child of a fork may find the lock held forever, and then parses the texts each time.
    guard lock.tryLock() else { return AgreedPolicy(words) }
    defer { lock.unlock() }
    if let known = unsafe policies[words] { return known }
    let policy = AgreedPolicy(words)
    if unsafe policies.count >= Self.most { unsafe policies = [:] }
    unsafe policies[words] = policy
    return policy
  }
}
