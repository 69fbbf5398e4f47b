/// The policies that words come to: many breakers share a few, and to read one takes microseconds.
@safe final class PolicyCache: Sendable {
  struct Words: Sendable, Hashable {
    var code: String?
    var `operator`: String?
  }

  static let shared = PolicyCache()

  /// Far more than code declares; callers who invent new ones must not fill the memory.
  static let most = 256

  private let lock = Lock()
  private nonisolated(unsafe) var policies: [Words: AgreedPolicy] = [:]

  var count: Int { lock.withLock { unsafe policies.count } }

  func policy(of words: Words) -> AgreedPolicy {
    // A child of a fork may find the lock taken for good: then it reads the words each time.
    guard lock.tryLock() else { return Self.read(words) }
    defer { lock.unlock() }
    if let known = unsafe policies[words] { return known }
    let policy = Self.read(words)
    if unsafe policies.count >= Self.most { unsafe policies = [:] }
    unsafe policies[words] = policy
    return policy
  }

  private static func read(_ words: Words) -> AgreedPolicy {
    AgreedPolicy(codeWords: words.code, operatorWords: words.operator)
  }
}
