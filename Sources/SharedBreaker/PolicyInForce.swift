internal import BreakerCore
internal import BreakerStore

/// What the words of a breaker come to; breakers with the same words share one.
final class PolicyInForce: Sendable, Hashable {
  let policy: BreakerPolicy

  /// What an operator has set.
  let operatorValues: [PolicyKey: String]

  /// What code has set.
  let codeKeys: Set<PolicyKey>

  init(of breaker: StoredBreaker) {
    policy = breaker.policy
    operatorValues = Self.values(breaker.operatorWords)
    codeKeys = Set(Self.values(breaker.codeWords).keys)
  }

  private static func values(_ words: String?) -> [PolicyKey: String] {
    guard let words, let parsed = try? PolicyWords(text: words) else { return [:] }
    return parsed.values
  }

  static func == (left: PolicyInForce, right: PolicyInForce) -> Bool {
    left === right
      || left.policy == right.policy && left.operatorValues == right.operatorValues
        && left.codeKeys == right.codeKeys
  }

  func hash(into hasher: inout Hasher) { hasher.combine(policy) }
}

/// Makes snapshots; of many breakers with the same few policies, each is read once.
struct Photographer {
  private struct Words: Hashable {
    var code: String?
    var `operator`: String?
  }

  private var policies: [Words: PolicyInForce] = [:]

  mutating func snapshot(of breaker: StoredBreaker, at now: Moment) -> BreakerSnapshot {
    let words = Words(code: breaker.codeWords, operator: breaker.operatorWords)
    if let known = policies[words] {
      return BreakerSnapshot(of: breaker, under: known, at: now)
    }
    let policy = PolicyInForce(of: breaker)
    policies[words] = policy
    return BreakerSnapshot(of: breaker, under: policy, at: now)
  }
}
