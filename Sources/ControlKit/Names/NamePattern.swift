/// What a command line asks for: one name, or all the names that fit a pattern.
struct NamePattern: Sendable, Hashable {
  let text: String

  /// Nil if the text is a plain name.
  private let glob: Glob?

  init(_ text: String) {
    self.text = text
    glob = Glob.isPattern(text) ? Glob(text) : nil
  }

  var isName: Bool { glob == nil }

  /// A breaker may have a name that looks like a pattern, and is meant by it too.
  func matches(_ name: String) -> Bool {
    NameBytes(name) == NameBytes(text) || glob?.matches(name) == true
  }

  /// What all names begin with that can fit one of the patterns.
  ///
  /// Only as far as it is ASCII: other text can be equal without being the same bytes.
  static func commonBeginning(of patterns: [NamePattern]) -> String {
    guard var common = patterns.first?.text[...] else { return "" }
    for pattern in patterns {
      common = common.prefix { $0.isASCII && !"*?[\\".contains($0) }
      let length = zip(common, pattern.text).prefix { $0 == $1 }.count
      common = common.prefix(length)
    }
    return String(common)
  }
}
