internal import BreakerCore

/// Parsed policies, because many breakers share a few and parsing one takes microseconds.
final class PolicyCache: Sendable {
  static let shared = PolicyCache()

  /// Far more than code declares; callers that invent new texts must not exhaust the memory.
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
