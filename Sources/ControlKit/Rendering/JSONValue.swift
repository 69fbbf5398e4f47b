/// A JSON document as a value; what is not known is `null`.
enum JSONValue: Sendable, Hashable {
  case null
  case bool(Bool)
  case integer(Int64)
  case number(Double)
  case string(String)

  /// A part whose text is known already, because it is in many documents.
  case rendered(String)
  case array([JSONValue])

  /// Members in the order in which they are written.
  case object([Member])

  struct Member: Sendable, Hashable {
    var key: String
    var value: JSONValue

    init(_ key: String, _ value: JSONValue) {
      self.key = key
      self.value = value
    }
  }
}

extension JSONValue {
  init(_ text: String?) { self = text.map { .string($0) } ?? .null }

  init(_ count: Int64?) { self = count.map { .integer($0) } ?? .null }

  /// Whole milliseconds, rounded up: waiting that long is always long enough.
  init(milliseconds duration: Duration?) {
    self = duration.map { .integer(SpokenDuration.milliseconds($0)) } ?? .null
  }

  /// The document in one line.
  var text: String {
    var result = ""
    write(to: &result)
    return result
  }

  func write(to result: inout String) {
    switch self {
    case .null: result += "null"
    case .bool(let value): result += value ? "true" : "false"
    case .integer(let value): result += String(value)
    case .number(let value): result += Self.text(of: value)
    case .string(let value): Self.write(value, to: &result)
    case .rendered(let text): result += text
    case .array(let elements):
      Self.write(elements, between: "[", "]", to: &result) { $0.write(to: &$1) }
    case .object(let members):
      Self.write(members, between: "{", "}", to: &result) { member, result in
        Self.write(member.key, to: &result)
        result += ":"
        member.value.write(to: &result)
      }
    }
  }

  private static func write<Element>(
    _ elements: [Element], between opening: String, _ closing: String, to result: inout String,
    _ writeOne: (Element, inout String) -> Void
  ) {
    result += opening
    for (index, element) in elements.enumerated() {
      if index > 0 { result += "," }
      writeOne(element, &result)
    }
    result += closing
  }

  /// JSON has no word for what is not finite.
  private static func text(of number: Double) -> String {
    guard number.isFinite else { return "null" }
    let text = String(number)
    return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
  }

  private static func write(_ text: String, to result: inout String) {
    result += "\""
    defer { result += "\"" }
    // Nearly all text is such, and goes over as it is.
    if text.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7F && $0 != 0x22 && $0 != 0x5C }) {
      result += text
      return
    }
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": result += "\\\""
      case "\\": result += "\\\\"
      case "\n": result += "\\n"
      case "\r": result += "\\r"
      case "\t": result += "\\t"
      case _ where VisibleText.steers(scalar): result += escape(scalar)
      default: result.unicodeScalars.append(scalar)
      }
    }
  }

  /// Whatever steers a terminal lies below U+FFFF, so four digits are enough.
  private static func escape(_ scalar: Unicode.Scalar) -> String {
    let digits = String(scalar.value, radix: 16)
    return "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
  }
}
