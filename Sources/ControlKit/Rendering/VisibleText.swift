import SharedBreaker

/// Text from outside as it stands in a line that is printed; the rule itself is `OutsideText`'s.
enum VisibleText {
  /// The text with everything that could mislead its reader made visible.
  static func bare(_ text: String) -> String { OutsideText.visible(text) }

  /// The name of a breaker, in quotes if it would not be seen without them.
  static func name(_ name: String) -> String {
    name.allSatisfy(\.isWhitespace) ? "'\(bare(name))'" : bare(name)
  }

  /// The text in quotes, cut where it would drown the message around it.
  static func quoted(_ text: String) -> String { "'\(OutsideText.quoted(text))'" }
}
