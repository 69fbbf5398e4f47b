/// The words in which two policies differ, in the order of the vocabulary.
///
/// Words that this version does not know come last, because another version may have written them.
public struct PolicyDifference: Sendable, Hashable {
  /// A word in which the policies differ.
  ///
  /// No version adds cases, so a `switch` over a word needs no `default`.
  public enum Word: Sendable, Hashable {
    /// Both have the word, with different values.
    case changed(key: String, from: String, to: String)

    /// Only the second has the word.
    case added(key: String, value: String)

    /// Only the first has the word.
    case removed(key: String, value: String)
  }

  /// The words in which they differ.
  public private(set) var words: [Word] = []

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
