/// Parsed policies, because many breakers share a few and parsing one takes microseconds.
final class PolicyCache: Sendable {
  struct Words: Sendable, Hashable {
    var code: String?
    var `operator`: String?
  }

  static let shared = PolicyCache()

  /// Far more than code declares; callers that invent new texts must not exhaust the memory.
  static let most = 256

  private let policies = Guarded<[Words: AgreedPolicy]>([:])

  var count: Int { policies.withLock { $0.count } }

  func policy(of words: Words) -> AgreedPolicy {
    let known = policies.withLockIfFree { policies in
      if let known = policies[words] { return known }
      let policy = Self.read(words)
      if policies.count >= Self.most { policies = [:] }
      policies[words] = policy
      return policy
    }
    // A child of a fork may find the lock held forever, and then parses the texts each time.
    return known ?? Self.read(words)
  }

  private static func read(_ words: Words) -> AgreedPolicy {
    AgreedPolicy(codeWords: words.code, operatorWords: words.operator)
  }
}
