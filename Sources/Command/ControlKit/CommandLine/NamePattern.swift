/// The breakers that a command line names: one, or all that match a pattern.
struct NamePattern: Sendable, Hashable {
  let text: String

  /// The pattern; nil if the text is a plain name.
  private let glob: Glob?

  init(_ text: String) {
    self.text = text
    glob = Glob.isPattern(text) ? Glob(text) : nil
  }

  var isName: Bool { glob == nil }

  /// Whether a command that changes breakers takes it for a pattern: names of hosts may have brackets, as `[::1]` does.
  var hasWildcard: Bool { text.contains { "*?".contains($0) } }

  /// Whether a name matches; a name with the same text as the pattern always does.
  func matches(_ name: String) -> Bool {
    name.utf8.elementsEqual(text.utf8) || glob?.matches(name) == true
  }

  /// Whether a name matches one of the patterns, or there are none.
  static func matches(_ name: String, _ patterns: [NamePattern]) -> Bool {
    patterns.isEmpty || patterns.contains { $0.matches(name) }
  }

  /// The beginning of all names that can match one of the patterns.
  ///
  /// It ends before the first character that is not ASCII, because Swift considers some other texts
  /// equal whose bytes differ.
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

/// Patterns of names: `*` is any text, `?` any character, `[a-z]` one of a set, `[!a]` none of it.
struct Glob: Sendable, Hashable {
  private enum Part: Sendable, Hashable {
    case anyText
    case anyCharacter
    case literal(Character)
    case set([ClosedRange<Character>], isNegated: Bool)
  }

  private var parts: [Part] = []

  /// Whether a text has characters with a special meaning in patterns.
  fileprivate static func isPattern(_ text: String) -> Bool { text.contains { "*?[".contains($0) } }

  init(_ pattern: String) {
    var rest = Substring(pattern)
    while let character = rest.popFirst() {
      switch character {
      case "*":
        if parts.last != .anyText { parts.append(.anyText) }
      case "?": parts.append(.anyCharacter)
      case "\\": parts.append(.literal(rest.popFirst() ?? "\\"))
      case "[":
        // A bracket without an end is an ordinary character.
        if let set = Self.set(&rest) { parts.append(set) } else { parts.append(.literal("[")) }
      default: parts.append(.literal(character))
      }
    }
  }

  private static func set(_ rest: inout Substring) -> Part? {
    guard let end = rest.dropFirst().firstIndex(of: "]") else { return nil }
    var body = rest[..<end]
    rest = rest[rest.index(after: end)...]
    let isNegated = body.first == "!"
    if isNegated { body.removeFirst() }
    var ranges: [ClosedRange<Character>] = []
    while let first = body.popFirst() {
      var last = first
      if body.first == "-", body.count > 1 {
        body.removeFirst()
        last = body.removeFirst()
      }
      if first <= last { ranges.append(first...last) }
    }
    return .set(ranges, isNegated: isNegated)
  }

  /// Whether the whole text matches; takes at most pattern length times text length steps.
  func matches(_ text: String) -> Bool {
    let text = Array(text)
    var position = 0
    var part = 0
    var retry: (part: Int, position: Int)?
    while position < text.count {
      if part < parts.count, parts[part] == .anyText {
        retry = (part, position)
        part += 1
      } else if part < parts.count, fits(parts[part], text[position]) {
        part += 1
        position += 1
      } else if let last = retry {
        // The last star takes one more character, and matching continues after it.
        retry = (last.part, last.position + 1)
        part = last.part + 1
        position = last.position + 1
      } else {
        return false
      }
    }
    return parts[part...].allSatisfy { $0 == .anyText }
  }

  private func fits(_ part: Part, _ character: Character) -> Bool {
    switch part {
    case .anyText: false
    case .anyCharacter: true
    case .literal(let literal): literal == character
    case .set(let ranges, let isNegated):
      ranges.contains { $0.contains(character) } != isNegated
    }
  }
}
