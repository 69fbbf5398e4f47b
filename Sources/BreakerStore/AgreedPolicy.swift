package import BreakerCore

/// What the words of a breaker come to; breakers with the same words share one.
package final class AgreedPolicy: Sendable {
  package let codeWords: String?
  package let operatorWords: String?
  package let policy: BreakerPolicy

  /// The operator's words over the code's over the default.
  ///
  /// Words of an operator that no longer fit what code declares are passed over, so that a new
  /// release of the code can never be left without a policy.
  package init(codeWords: String?, operatorWords: String?) {
    self.codeWords = codeWords
    self.operatorWords = operatorWords
    var policy = BreakerPolicy()
    for text in [codeWords, operatorWords] {
      guard let text, let words = try? PolicyWords(text: text),
        let applied = try? words.applied(to: policy)
      else { continue }
      policy = applied
    }
    self.policy = policy
  }
}

/// The policies of a store's breakers, of which there are few, however many breakers there are.
@safe final class AgreedPolicies: @unchecked Sendable {
  private struct Words: Hashable {
    var code: String?
    var `operator`: String?
  }

  /// Words that are no longer any breaker's are forgotten when there are so many.
  private static let limit = 1_000

  private let lock = Lock()
  private var policies: [Words: AgreedPolicy] = [:]

  func willFork() { lock.lock() }
  func didFork() { lock.unlock() }

  func policy(of breaker: StoredBreaker) -> AgreedPolicy {
    let words = Words(code: breaker.codeWords, operator: breaker.operatorWords)
    if let known = lock.withLock({ policies[words] }) { return known }
    let made = AgreedPolicy(codeWords: words.code, operatorWords: words.operator)
    lock.withLock {
      if policies.count >= Self.limit { policies = [:] }
      policies[words] = made
    }
    return made
  }
}
