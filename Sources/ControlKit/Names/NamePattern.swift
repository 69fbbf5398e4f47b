/// What a command line asks for: one name, or all names that match a pattern.
struct NamePattern: Sendable, Hashable {
  let text: String

  /// The pattern; nil if the text is a plain name.
  private let glob: Glob?

  init(_ text: String) {
    self.text = text
    glob = Glob.isPattern(text) ? Glob(text) : nil
  }

  var isName: Bool { glob == nil }

  /// Whether a name matches; a name that looks like the pattern itself also does.
  func matches(_ name: String) -> Bool {
    NameBytes(name) == NameBytes(text) || glob?.matches(name) == true
  }

  /// The beginning of all names that can match one of the patterns.
  ///
  /// It ends before the first character that is not ASCII, because other text can be equal without
  /// being the same bytes.
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
