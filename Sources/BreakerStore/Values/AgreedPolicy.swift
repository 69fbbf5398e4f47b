package import BreakerCore

/// The policy that a breaker's texts amount to; breakers with the same texts share one.
package final class AgreedPolicy: Sendable, Hashable {
  package let codeWords: String?
  package let operatorWords: String?
  package let policy: BreakerPolicy

  /// What an operator has set.
  package let operatorValues: [PolicyKey: String]

  /// What code has set.
  package let codeKeys: Set<PolicyKey>

  /// Applies the operator's values over the code's, and those over the default.
  ///
  /// Operator's values that no longer fit what code declares are ignored, so that a new release of
  /// the code is never left without a policy.
  package init(codeWords: String?, operatorWords: String?) {
    self.codeWords = codeWords
    self.operatorWords = operatorWords
    let code = Self.parsed(codeWords)
    let byOperator = Self.parsed(operatorWords)
    var policy = BreakerPolicy()
    for words in [code, byOperator] {
      if let applied = try? words?.applied(to: policy) { policy = applied }
    }
    self.policy = policy
    operatorValues = byOperator?.values ?? [:]
    codeKeys = Set((code?.values ?? [:]).keys)
  }

  private static func parsed(_ words: String?) -> PolicyWords? {
    words.flatMap { try? PolicyWords(text: $0) }
  }

  package static func == (left: AgreedPolicy, right: AgreedPolicy) -> Bool {
    left.codeWords == right.codeWords && left.operatorWords == right.operatorWords
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(codeWords)
    hasher.combine(operatorWords)
  }
}
