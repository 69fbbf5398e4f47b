/// Makes text from outside safe to print: what would steer a terminal shows as `\u{1b}`.
enum VisibleText {
  /// The text with its control characters made visible.
  static func bare(_ text: String) -> String {
    if isPlain(text) || !text.unicodeScalars.contains(where: steers) { return text }
    var result = ""
    for scalar in text.unicodeScalars {
      if steers(scalar) {
        result += "\\u{\(String(scalar.value, radix: 16))}"
      } else {
        result.unicodeScalars.append(scalar)
      }
    }
    return result
  }

  /// The text with its control characters made visible, but for those that end a line.
  static func lines(_ text: String) -> String {
    text.utf8.split(separator: 0x0A, omittingEmptySubsequences: false)
      .map { bare(String($0) ?? "") }.joined(separator: "\n")
  }

  /// The name of a breaker, in quotes if it would not be seen without them.
  static func name(_ name: String) -> String {
    name.allSatisfy(\.isWhitespace) ? "'\(bare(name))'" : bare(name)
  }

  /// The text in quotes, cut where it would drown the message around it.
  static func quoted(_ text: String, longest: Int = 60) -> String {
    // By scalars: one character may be as long as somebody likes.
    let cut = text.unicodeScalars.prefix(longest)
    return "'\(bare(String(cut)))\(cut.endIndex == text.endIndex ? "" : "…")'"
  }

  /// Whether all of the text is ASCII that can be seen, of which there is no doubt.
  static func isPlain(_ text: String) -> Bool {
    text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F }
  }

  /// Whether a scalar is a control character, or breaks a line as one does.
  static func isControl(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .lineSeparator, .paragraphSeparator: true
    default: false
    }
  }

  /// Whether a scalar changes how the text around it is shown.
  ///
  /// The overrides of writing direction can make a line read as another one.
  static func steers(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x202A...0x202E, 0x2066...0x2069, 0x200E, 0x200F, 0x061C, 0xFEFF: true
    default: isControl(scalar)
    }
  }
}
