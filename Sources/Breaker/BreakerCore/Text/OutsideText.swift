/// Text that comes from outside, such as names, reasons and error texts.
///
/// Such a text can contain control characters and invisible ones. Before you print it, make them
/// visible: `print(OutsideText.visible(entry.reason))`.
public enum OutsideText {
  package static let longestName = 255
  package static let longestError = 1_024
  private static let longestQuote = 80

  /// Explains why a breaker's name is not allowed; nil if it is allowed.
  package static func complaint(aboutName name: String) -> String? {
    if name.isEmpty { return "it is empty" }
    let length = name.utf8.count
    if length > longestName { return "it has \(length) bytes, and \(longestName) is the limit" }
    if name.unicodeScalars.contains(where: isControl) {
      return "it contains a control character"
    }
    return nil
  }

  /// Whether a scalar would control a terminal or end a line, which is forbidden in names.
  private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .lineSeparator, .paragraphSeparator: true
    default: false
    }
  }

  /// Whether a scalar can make one text look like another.
  ///
  /// It controls a terminal, ends a line, changes the writing direction, or is invisible.
  package static func misleads(_ scalar: Unicode.Scalar) -> Bool {
    // These mark an annotation and are as invisible, but Unicode does not list them with the
    // others.
    let isAnnotation = (0xFFF9...0xFFFB).contains(scalar.value)
    return isControl(scalar) || scalar.properties.isDefaultIgnorableCodePoint || isAnnotation
  }

  /// The text with everything that could mislead its reader made visible, as in `\u{1b}`.
  ///
  /// This is the one rule for everything that is printed: on a terminal, in a pipe, in a page, in
  /// metrics and in messages. Joiners and variation selectors are kept after a visible non-ASCII
  /// character, because scripts and emoji need them.
  public static func visible(_ text: String) -> String {
    if text.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7F }) { return text }
    var result = ""
    var canBeJoined = false
    for scalar in text.unicodeScalars {
      if misleads(scalar), !(canBeJoined && joins(scalar)) {
        result += "\\u{\(String(scalar.value, radix: 16))}"
      } else {
        result.unicodeScalars.append(scalar)
      }
      canBeJoined = !scalar.isASCII && !misleads(scalar)
    }
    return result
  }

  /// Whether a scalar controls how its neighbors are written: joined or apart, as text or emoji.
  private static func joins(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x200C, 0x200D, 0xFE00...0xFE0F: true
    default: false
    }
  }

  /// The name of a breaker, made visible, and in quotes if it is nothing but space.
  public static func name(_ name: String) -> String {
    name.allSatisfy(\.isWhitespace) ? "'\(visible(name))'" : visible(name)
  }

  /// The text as a message quotes it: made visible, and short enough not to drown the message.
  public static func quoted(_ text: String) -> String {
    let cut = cut(text, to: longestQuote)
    return visible(cut) + (cut.utf8.count == text.utf8.count ? "" : "…")
  }

  /// The text, cut at a character boundary to at most `longest` bytes.
  package static func cut(_ text: String, to longest: Int = longestError) -> String {
    guard text.utf8.count > longest else { return text }
    var length = 0
    var end = text.startIndex
    for character in text {
      length += character.utf8.count
      if length > longest { break }
      end = text.index(after: end)
    }
    return String(text[..<end])
  }
}
