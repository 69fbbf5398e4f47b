/// Some values of a policy: those that code declared, or those that an operator has set over them.
///
/// The text form is `max-failures=3 open-for=1m`, in the file as on the command line.
package struct PolicyWords: Sendable, Hashable, CustomStringConvertible {
  package var values: [PolicyKey: String]

  package init(_ values: [PolicyKey: String] = [:]) { self.values = values }

  /// The values in which a policy differs from the default policy.
  package init(of policy: BreakerPolicy) {
    let plain = BreakerPolicy()
    values = [:]
    for key in PolicyKey.allCases {
      let text = policy.text(for: key)
      if text != plain.text(for: key) { values[key] = text ?? "none" }
    }
    // The defaults of these two depend on other values, so keep only what was set explicitly.
    values[.minCalls] = policy.minCalls.map { String($0) }
    values[.maxFailures] = policy.maxFailures.map { String($0) }
  }

  package init(text: String) throws(PolicyError) {
    values = [:]
    for word in text.split(separator: " ") {
      guard let separator = word.firstIndex(of: "=") else {
        throw PolicyError(unknownKey: String(word))
      }
      let name = String(word[..<separator])
      guard let key = PolicyKey(rawValue: name) else { throw PolicyError(unknownKey: name) }
      values[key] = String(word[word.index(after: separator)...])
    }
  }

  package var description: String {
    PolicyKey.allCases.compactMap { key in values[key].map { "\(key.rawValue)=\($0)" } }
      .joined(separator: " ")
  }

  /// The text; nil if there are no values.
  var textOrNil: String? { values.isEmpty ? nil : description }

  /// The policy with these values applied over it.
  package func applied(to policy: BreakerPolicy) throws(PolicyError) -> BreakerPolicy {
    var result = policy
    for key in PolicyKey.allCases {
      if let text = values[key] { try result.set(key, to: text) }
    }
    try result.validate()
    return result
  }
}
