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

  /// The text, cut in the middle if it is wider, because names often differ only at their ends.
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
