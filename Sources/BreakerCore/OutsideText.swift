/// Rules for text that comes from outside: names and error texts.
package enum OutsideText {
  package static let longestName = 255
  package static let longestError = 1_024
  private static let longestQuote = 80

  /// Says what is wrong with a breaker's name, or nil if it may be used.
  package static func complaint(aboutName name: String) -> String? {
    if name.isEmpty { return "it is empty" }
    let length = name.utf8.count
    if length > longestName { return "it has \(length) bytes, and at most \(longestName) fit" }
    if name.unicodeScalars.contains(where: isControl) {
      return "it has a control character in it"
    }
    return nil
  }

  /// Whether a scalar would steer a terminal instead of showing on it.
  package static func isControl(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .lineSeparator, .paragraphSeparator: true
    default: false
    }
  }

  /// The text with what would steer a terminal, or break a line, made visible.
  package static func visible(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars {
      if isControl(scalar) {
        result += "\\u{\(String(scalar.value, radix: 16))}"
      } else {
        result.unicodeScalars.append(scalar)
      }
    }
    return result
  }

  /// The text as a message repeats it: visible, and so short that it does not drown the message.
  package static func quoted(_ text: String) -> String {
    let cut = cut(text, to: longestQuote)
    return visible(cut) + (cut.utf8.count == text.utf8.count ? "" : "…")
  }

  /// The text, cut at a character so that it has at most `longestError` bytes.
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
