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
    // The defaults of these depend on other values, so keep only what was set explicitly.
    values[.minCalls] = policy.minCalls.map { String($0) }
    values[.maxFailures] = policy.maxFailures.map { String($0) }
    values[.queue] = policy.queue.map { String($0) }
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

/// The words in which two policies differ, in the order of the vocabulary.
///
/// Words that this version does not know come last, because another version may have written them.
public struct PolicyDifference: Sendable, Hashable {
  /// A word in which the policies differ.
  package enum Word: Sendable, Hashable {
    /// Both have the word, with different values.
    case changed(key: String, from: String, to: String)

    /// Only the second has the word.
    case added(key: String, value: String)

    /// Only the first has the word.
    case removed(key: String, value: String)
  }

  /// The words in which they differ.
  package private(set) var words: [Word] = []

  /// Compares two policies in words, such as `max-failures=3 open-for=1m`.
  public init(from old: String, to new: String) {
    let (old, new) = (Self.values(in: old), Self.values(in: new))
    let known = PolicyKey.allCases.map(\.rawValue)
    let unknown = Set(old.keys).union(new.keys).subtracting(known).sorted()
    for key in known + unknown {
      switch (old[key], new[key]) {
      case (let old?, let new?) where old != new:
        words.append(.changed(key: key, from: old, to: new))
      case (nil, let new?): words.append(.added(key: key, value: new))
      case (let old?, nil): words.append(.removed(key: key, value: old))
      case (.some, .some), (nil, nil): break
      }
    }
  }

  /// The difference for people: `open-for 30s -> 1m, -jitter=10%, +probes=2`.
  public func text(arrow: String = "->") -> String {
    if words.isEmpty { return "no difference" }
    return words.map { word in
      switch word {
      case .changed(let key, let from, let to): "\(key) \(from) \(arrow) \(to)"
      case .added(let key, let value): "+\(key)=\(value)"
      case .removed(let key, let value): "-\(key)=\(value)"
      }
    }.joined(separator: ", ")
  }

  private static func values(in text: String) -> [String: String] {
    var values: [String: String] = [:]
    for word in text.split(separator: " ") {
      let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      values[String(parts[0])] = parts.count > 1 ? String(parts[1]) : ""
    }
    return values
  }
}
