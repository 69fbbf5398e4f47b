import SharedBreaker

/// Text from outside, made safe for a printed line by the rule in `OutsideText`.
enum VisibleText {
  /// The text with everything that could mislead its reader made visible.
  static func bare(_ text: String) -> String { OutsideText.visible(text) }

  /// The name of a breaker, in quotes if it would not be visible without them.
  static func name(_ name: String) -> String { OutsideText.name(name) }

  /// The text in quotes, cut if it would be too long for its message.
  static func quoted(_ text: String) -> String { "'\(OutsideText.quoted(text))'" }
}
