import SharedBreaker

/// How many columns text occupies on a terminal.
enum TextWidth {
  static func of(_ text: String) -> Int {
    text.utf8.allSatisfy { $0 < 0x80 } ? text.utf8.count : text.reduce(0) { $0 + width(of: $1) }
  }

  /// The text, cut with an ellipsis if it is wider than `longest` columns.
  static func cut(_ text: String, to longest: Int) -> String {
    guard of(text) > longest else { return text }
    var result = ""
    var taken = 1
    for character in text {
      taken += width(of: character)
      if taken > longest { break }
      result.append(character)
    }
    return result + "…"
  }

  /// The text, cut in the middle if it is too wide, because names often differ only at their ends.
  static func cutInside(_ text: String, to longest: Int) -> String {
    guard of(text) > longest else { return text }
    let kept = max(0, longest - 1)
    return cut(text, to: kept - kept / 2 + 1) + end(of: text, within: kept / 2)
  }

  private static func end(of text: String, within longest: Int) -> Substring {
    var taken = 0
    var start = text.endIndex
    while start > text.startIndex {
      let before = text.index(before: start)
      taken += width(of: text[before])
      if taken > longest { break }
      start = before
    }
    return text[start...]
  }

  private static func width(of character: Character) -> Int {
    guard let first = character.unicodeScalars.first else { return 0 }
    switch first.properties.generalCategory {
    case .nonspacingMark, .enclosingMark, .format: return 0
    default: return isWide(first) ? 2 : 1
    }
  }

  private static func isWide(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF,
      0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F680...0x1FAFF,
      0x20000...0x3FFFD:
      true
    default: false
    }
  }
}

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

  /// The text after a beginning, with all its lines indented equally.
  ///
  /// If the column would be too narrow, also for a word that fits a line, the text has lines of its own.
  static func hanging(_ text: String, after beginning: String, width: Int) -> [String] {
    let indent = TextWidth.of(beginning)
    if indent + TextWidth.of(text) <= width { return [beginning + text] }
    let words = text.split(separator: " ").map { TextWidth.of(String($0)) }
    let breaksWord = words.contains { indent + $0 > width && $0 <= width - 4 }
    guard indent + 20 <= width, !breaksWord else {
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

/// Cells side by side in columns; a cell that does not fit continues below.
struct FlowingRow {
  /// The text before the first cell, which is never wrapped.
  var lead: String

  var cells: [String]

  /// The widths to which cells are padded, except the last cell.
  var widths: [Int]

  private static let gap = "  "

  /// The narrowest column in which a longer text may be wrapped.
  private static let narrowest = 20

  /// The row as one line.
  var line: String {
    var line = lead
    for (place, cell) in cells.enumerated() { line += padded(cell, at: place) }
    return line
  }

  /// The lines of the row, wrapped between words, and inside words that are longer than a line.
  func lines(width: Int) -> [String] {
    var lines = [lead]
    // The columns in which the earlier cells begin, from left to right.
    var starts: [Int] = []
    var isBroken = false
    for (place, cell) in cells.enumerated() {
      let needed = min(TextWidth.of(cell), Self.narrowest)
      var start = TextWidth.of(lines[lines.count - 1])
      if isBroken || start + needed > width {
        start = starts.last { $0 + needed <= width } ?? 0
        lines.append(Self.spaces(start))
      }
      starts = starts.filter { $0 < start } + [start]
      let parts = TextWrap.lines(cell, width: max(1, width - start))
      isBroken = parts.count > 1
      lines[lines.count - 1] += isBroken ? parts[0] : padded(cell, at: place)
      lines += parts.dropFirst().map { Self.spaces(start) + $0 }
    }
    return lines.map(Self.withoutTrailingSpaces)
  }

  private func padded(_ cell: String, at place: Int) -> String {
    guard place < widths.count else { return cell }
    return cell + Self.spaces(widths[place] - TextWidth.of(cell)) + Self.gap
  }

  private static func spaces(_ count: Int) -> String {
    String(repeating: " ", count: max(0, count))
  }

  private static func withoutTrailingSpaces(_ line: String) -> String {
    String(line.reversed().drop { $0 == " " }.reversed())
  }
}

/// Text from outside, made safe for a printed line by the rule in `OutsideText`.
enum VisibleText {
  /// The text with everything that could mislead its reader made visible.
  static func bare(_ text: String) -> String { OutsideText.visible(text) }

  /// The name of a breaker, in quotes if it could be misread without them.
  static func name(_ name: String) -> String { OutsideText.name(name) }

  /// The text in quotes, cut if it would be too long for its message.
  static func quoted(_ text: String) -> String { "'\(OutsideText.quoted(text))'" }
}
