/// Text wrapped to the width of a terminal.
enum TextWrap {
  /// The lines of a text, broken at spaces, and inside words that are too long for a line.
  static func lines(_ text: String, width: Int) -> [String] {
    var lines: [String] = []
    for word in text.split(separator: " ") {
      if let last = lines.last, TextWidth.of(last) + 1 + TextWidth.of(String(word)) <= width {
        lines[lines.count - 1] = last + " " + word
      } else {
        lines += pieces(of: word, width: width)
      }
    }
    return lines
  }

  /// The text after a beginning; its further lines are indented as far as its first.
  ///
  /// In a column that is too narrow the text would fall apart, so there it has lines of its own.
  static func hanging(_ text: String, after beginning: String, width: Int) -> [String] {
    let indent = TextWidth.of(beginning)
    if indent + TextWidth.of(text) <= width { return [beginning + text] }
    guard indent + 20 <= width else {
      var head = beginning
      while head.last == " " { head.removeLast() }
      return (TextWidth.of(head) <= width ? [head] : lines(head, width: width))
        + lines(text, width: width - 4).map { "    \($0)" }
    }
    let lines = lines(text, width: width - indent)
    let margin = String(repeating: " ", count: indent)
    return lines.enumerated().map { ($0 == 0 ? beginning : margin) + $1 }
  }

  private static func pieces(of word: Substring, width: Int) -> [String] {
    var pieces: [String] = []
    var piece = ""
    for character in word {
      if TextWidth.of(piece + String(character)) > max(1, width), !piece.isEmpty {
        pieces.append(piece)
        piece = ""
      }
      piece.append(character)
    }
    return pieces + [piece]
  }
}
