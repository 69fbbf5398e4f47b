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
