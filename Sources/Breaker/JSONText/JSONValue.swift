internal import BreakerCore

/// A JSON document as a value; unknown values are `null`.
public enum JSONValue: Sendable, Hashable {
  case null
  case bool(Bool)
  case integer(Int64)
  case number(Double)
  case string(String)

  /// A part whose text is already rendered, because many documents share it.
  case rendered(String)
  case array([JSONValue])

  /// An object, with its members in the order in which they are written.
  case object([Member])

  /// A member of an object.
  public struct Member: Sendable, Hashable {
    /// The key.
    public var key: String
    /// The value.
    public var value: JSONValue

    /// Creates a member.
    public init(_ key: String, _ value: JSONValue) {
      self.key = key
      self.value = value
    }
  }
}

extension JSONValue {
  /// A text; `null` if there is none.
  public init(_ text: String?) { self = text.map { .string($0) } ?? .null }

  /// A whole number; `null` if there is none.
  public init(_ count: Int64?) { self = count.map { .integer($0) } ?? .null }

  /// Whole milliseconds, rounded up, so that waiting that long is always enough.
  public init(milliseconds duration: Duration?) {
    self = duration.map { .integer(max(0, DurationText.milliseconds($0))) } ?? .null
  }

  /// The document in one line.
  public var text: String {
    var result: [UInt8] = []
    write(to: &result)
    return String(decoding: result, as: UTF8.self)
  }

  /// Appends the document to a text.
  public func write(to result: inout [UInt8]) {
    switch self {
    case .null: result += "null".utf8
    case .bool(let value): result += (value ? "true" : "false").utf8
    case .integer(let value): result += String(value).utf8
    case .number(let value): result += Self.text(of: value).utf8
    case .string(let value): Self.write(value, to: &result)
    case .rendered(let text): result += text.utf8
    case .array(let elements):
      Self.write(elements, between: "[", "]", to: &result) { $0.write(to: &$1) }
    case .object(let members):
      Self.write(members, between: "{", "}", to: &result) { member, result in
        Self.write(member.key, to: &result)
        result.append(UInt8(ascii: ":"))
        member.value.write(to: &result)
      }
    }
  }

  private static func write<Element>(
    _ elements: [Element], between opening: Unicode.Scalar, _ closing: Unicode.Scalar,
    to result: inout [UInt8],
    _ writeOne: (Element, inout [UInt8]) -> Void
  ) {
    result.append(UInt8(ascii: opening))
    for (index, element) in elements.enumerated() {
      if index > 0 { result.append(UInt8(ascii: ",")) }
      writeOne(element, &result)
    }
    result.append(UInt8(ascii: closing))
  }

  /// The text of a number; JSON cannot express one that is not finite.
  private static func text(of number: Double) -> String {
    guard number.isFinite else { return "null" }
    let text = String(number)
    return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
  }

  private static func write(_ text: String, to result: inout [UInt8]) {
    result.append(UInt8(ascii: "\""))
    defer { result.append(UInt8(ascii: "\"")) }
    // Nearly all text needs no escaping.
    if text.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7F && $0 != 0x22 && $0 != 0x5C }) {
      result += text.utf8
      return
    }
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": result += "\\\"".utf8
      case "\\": result += "\\\\".utf8
      case "\n": result += "\\n".utf8
      case "\r": result += "\\r".utf8
      case "\t": result += "\\t".utf8
      case _ where OutsideText.misleads(scalar): result += escape(scalar).utf8
      default: result += UTF8.encode(scalar) ?? .init()
      }
    }
  }

  /// The scalar as an escape, which misleads no reader and which programs decode to the scalar.
  private static func escape(_ scalar: Unicode.Scalar) -> String {
    String(scalar).utf16.reduce(into: "") { result, unit in
      let digits = String(unit, radix: 16)
      result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
    }
  }
}
