/// Markup that escapes every text interpolated into it; only other markup goes in unchanged.
///
/// So text from outside cannot become markup by an oversight.
struct HTML: ExpressibleByStringInterpolation, Sendable {
  private(set) var text: String

  init(stringLiteral text: String) { self.text = text }

  init(stringInterpolation parts: Interpolation) { text = parts.text }

  static let nothing: HTML = ""

  struct Interpolation: StringInterpolationProtocol {
    fileprivate var text = ""

    init(literalCapacity: Int, interpolationCount: Int) {
      text.reserveCapacity(literalCapacity + 16 * interpolationCount)
    }

    mutating func appendLiteral(_ markup: String) { text += markup }

    mutating func appendInterpolation(_ markup: HTML) { text += markup.text }

    mutating func appendInterpolation(_ parts: [HTML]) {
      for part in parts { text += part.text }
    }

    mutating func appendInterpolation(_ number: some BinaryInteger) { text += String(number) }

    mutating func appendInterpolation(_ outside: String) { text += HTML.escaped(outside) }
  }

  /// The text as the content of an element or of an attribute in quotes.
  private static func escaped(_ outside: String) -> String {
    let text = VisibleText.bare(outside)
    guard text.utf8.contains(where: isMarkup) else { return text }
    var result: [UInt8] = []
    result.reserveCapacity(text.utf8.count + 16)
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "&"): result += "&amp;".utf8
      case UInt8(ascii: "<"): result += "&lt;".utf8
      case UInt8(ascii: ">"): result += "&gt;".utf8
      case UInt8(ascii: "\""): result += "&quot;".utf8
      case UInt8(ascii: "'"): result += "&#39;".utf8
      default: result.append(byte)
      }
    }
    return String(decoding: result, as: UTF8.self)
  }

  private static func isMarkup(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "&"), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\""),
      UInt8(ascii: "'"):
      true
    default: false
    }
  }
}
