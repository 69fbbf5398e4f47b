/// The words that a breaker's policy comes from, and the rules by which they change.
///
/// Code declares a whole policy, and the latest declaration holds. An operator sets single values,
/// which win over the code's until they are unset.
package struct AgreedWords: Sendable, Hashable {
  /// The policy that code declared last; nil if no code ever declared one.
  package var code: String?

  /// The values that an operator has set over it; nil if there are none.
  package var `operator`: String?

  package init(code: String? = nil, operator: String? = nil) {
    self.code = code
    self.operator = `operator`
  }

  /// The policy that code declared, or else the default.
  private func codesPolicy() throws(PolicyError) -> BreakerPolicy {
    try PolicyWords(text: code ?? "").applied(to: BreakerPolicy())
  }

  /// The words as the library writes them, if they make a valid policy.
  package func checked() throws(PolicyError) -> AgreedWords {
    let codes = try codesPolicy()
    let operators = try PolicyWords(text: self.operator ?? "")
    _ = try operators.applied(to: codes)
    return AgreedWords(
      code: code == nil ? nil : PolicyWords(of: codes).description, operator: operators.textOrNil)
  }
}

extension AgreedWords {
  /// Code of a process declares a policy.
  ///
  /// - Parameters:
  ///   - words: The policy in words.
  ///   - isNew: Whether the process has yet to declare it. Repeating a declaration does not overrule
  ///     a later one of another process; it counts only if the breaker was created from scratch.
  ///   - now: The time.
  /// - Returns: Whether this brought the words into force.
  package mutating func declared(_ words: String, isNew: Bool, at now: Moment) -> Step<Bool> {
    let before = code
    guard words != before, before == nil || isNew else { return Step(answer: false, events: []) }
    code = words
    let change = before.map { BreakerChange.policy(from: $0, to: words) }
    return Step(answer: true, events: Self.events(change, "declared by code", at: now))
  }

  /// An operator sets and unsets values.
  ///
  /// - Throws: `PolicyError` if the policy would not be valid. Then nothing has changed.
  package mutating func overridden(
    set values: [PolicyKey: String], unset keys: Set<PolicyKey>,
    because reason: String = "set by an operator", at now: Moment
  ) throws(PolicyError) -> Step<Void> {
    let codes = try codesPolicy()
    var operators = try PolicyWords(text: self.operator ?? "")
    for key in keys { operators.values[key] = nil }
    for (key, value) in values { operators.values[key] = value }
    _ = try operators.applied(to: codes)
    return replaceOperators(with: operators.textOrNil, because: reason, at: now)
  }

  /// Replaces these words by those of a backup; without a declaration there, this one stays.
  ///
  /// - Returns: Whether another declaration came into force.
  package mutating func restored(
    to backup: AgreedWords, because reason: String, at now: Moment
  ) -> Step<Bool> {
    let before = code
    code = backup.code ?? before
    let done = replaceOperators(with: backup.operator, because: reason, at: now)
    return Step(answer: code != before, events: done.events)
  }

  /// Takes over the words of another breaker where this one has none.
  package mutating func fill(from other: AgreedWords) {
    code = code ?? other.code
    self.operator = self.operator ?? other.operator
  }

  private mutating func replaceOperators(
    with words: String?, because reason: String, at now: Moment
  ) -> Step<Void> {
    let before = self.operator
    self.operator = words
    let change = before == words ? nil : BreakerChange.policy(from: before ?? "", to: words ?? "")
    return Step(answer: (), events: Self.events(change, reason, at: now))
  }

  private static func events(
    _ change: BreakerChange?, _ reason: String, at now: Moment
  ) -> [BreakerEvent] {
    change.map { [BreakerEvent($0, reason: reason, atMilliseconds: now.wallMilliseconds)] } ?? []
  }
}

/// The policy in force, as it follows from words; breakers with the same words share one.
package final class AgreedPolicy: Sendable, Hashable {
  package let words: AgreedWords
  package let policy: BreakerPolicy

  /// The values that an operator has set.
  package let operatorValues: [PolicyKey: String]

  /// The keys that code has set.
  package let codeKeys: Set<PolicyKey>

  /// The policy of a breaker for which neither code nor an operator has set a value.
  package static let unsaid = AgreedPolicy(AgreedWords())

  /// Applies the operator's values over the code's, and those over the default.
  ///
  /// If the operator's values no longer fit what code declares, they are ignored, so that a new
  /// release of the code is never left without a policy.
  package init(_ words: AgreedWords) {
    self.words = words
    let code = Self.parsed(words.code)
    let byOperator = Self.parsed(words.operator)
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
    left === right || left.words == right.words
  }

  package func hash(into hasher: inout Hasher) { hasher.combine(words) }
}
