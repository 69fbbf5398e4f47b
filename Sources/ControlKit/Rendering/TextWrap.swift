/// Text in lines that a terminal has room for.
enum TextWrap {
  /// The lines of a text, broken at spaces, and inside of words that are too long for a line.
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

  /// The text behind a beginning; what has no room beside it goes on below, as far to the right.
  static func hanging(_ text: String, after beginning: String, width: Int) -> [String] {
    let indent = TextWidth.of(beginning)
    // A column that is too narrow would tear the text apart: the terminal may break it.
    guard indent + 20 <= width else { return [beginning + text] }
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
