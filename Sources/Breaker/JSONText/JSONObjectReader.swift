/// One member of a JSON object.
public struct JSONMember: Sendable, Hashable {
  /// The value of a member.
  public enum Value: Sendable, Hashable {
    /// The word `null`.
    case null

    /// The word `true` or `false`.
    case bool(Bool)

    /// The number as it is written.
    case number(String)

    /// The text, without quotes and escapes.
    case string(String)

    /// The text of a list or an object, which ``JSONObjectReader`` can read in turn.
    case nested(String)
  }

  /// The key, without quotes and escapes.
  public var key: String

  /// The value.
  public var value: Value
}

/// Why a text is not a JSON object.
public struct JSONError: Error, CustomStringConvertible {
  /// The mistake in the text, and its place.
  public var description: String

  /// Creates an error.
  public init(description: String) { self.description = description }
}

/// Reads the members of a JSON object, as strictly as RFC 8259 defines it.
public struct JSONObjectReader {
  private let bytes: [UInt8]
  private let thing: String
  private var index = 0

  private init(_ text: String, of thing: String) {
    bytes = Array(text.utf8)
    self.thing = thing
  }

  /// Returns the members of an object; error messages call what it stands for `thing`.
  public static func members(
    of text: String, standingFor thing: String
  ) throws(JSONError) -> [JSONMember] {
    var reader = JSONObjectReader(text, of: thing)
    let members = try reader.object()
    reader.skipSpace()
    guard reader.next == nil else { throw reader.error("there is more after the object") }
    return members
  }

  /// Returns the elements of a list; error messages call what it stands for `thing`.
  public static func elements(
    of text: String, standingFor thing: String
  ) throws(JSONError) -> [JSONMember.Value] {
    var reader = JSONObjectReader(text, of: thing)
    let elements = try reader.list()
    reader.skipSpace()
    guard reader.next == nil else { throw reader.error("there is more after the list") }
    return elements
  }

  private var next: UInt8? { index < bytes.count ? bytes[index] : nil }

  private func error(_ what: String) -> JSONError {
    JSONError(description: "not a JSON object of \(thing), at byte \(index + 1): \(what)")
  }

  private mutating func skipSpace() {
    while let byte = next, [0x20, 0x09, 0x0A, 0x0D].contains(byte) { index += 1 }
  }

  private mutating func consume(_ character: Unicode.Scalar) -> Bool {
    guard next == UInt8(ascii: character) else { return false }
    index += 1
    return true
  }

  private mutating func object() throws(JSONError) -> [JSONMember] {
    skipSpace()
    guard consume("{") else { throw error("it must begin with {") }
    skipSpace()
    if consume("}") { return [] }
    var members: [JSONMember] = []
    while true {
      let key = try key()
      skipSpace()
      members.append(JSONMember(key: key, value: try value()))
      skipSpace()
      if consume("}") { return members }
      guard consume(",") else { throw error("a , or } is missing") }
    }
  }

  private mutating func list() throws(JSONError) -> [JSONMember.Value] {
    skipSpace()
    guard consume("[") else { throw error("it must begin with [") }
    skipSpace()
    if consume("]") { return [] }
    var elements: [JSONMember.Value] = []
    while true {
      skipSpace()
      elements.append(try value())
      skipSpace()
      if consume("]") { return elements }
      guard consume(",") else { throw error("a , or ] is missing") }
    }
  }

  /// Reads the key of a member and the colon behind it.
  private mutating func key() throws(JSONError) -> String {
    skipSpace()
    guard next == UInt8(ascii: "\"") else { throw error("a word in quotes is missing") }
    let key = try string()
    skipSpace()
    guard consume(":") else { throw error("a : is missing") }
    return key
  }

  private mutating func value() throws(JSONError) -> JSONMember.Value {
    switch next {
    case UInt8(ascii: "\""): return .string(try string())
    case UInt8(ascii: "{"), UInt8(ascii: "["):
      let start = index
      try skipNested()
      return .nested(String(decoding: bytes[start..<index], as: UTF8.self))
    case _ where isDigit || next == UInt8(ascii: "-"): return .number(try number())
    default:
      for (word, value) in [
        ("null", .null), ("true", .bool(true)), ("false", JSONMember.Value.bool(false)),
      ]
      where bytes[index...].starts(with: word.utf8) {
        index += word.utf8.count
        return value
      }
      throw error("a value is missing")
    }
  }

  /// Skips a list or an object and everything in it.
  ///
  /// It keeps its own stack, because text from outside may nest too deep for a thread's stack.
  private mutating func skipNested() throws(JSONError) {
    var unclosed: [Unicode.Scalar] = []
    repeat {
      skipSpace()
      if next == UInt8(ascii: "[") || next == UInt8(ascii: "{") {
        let closing: Unicode.Scalar = next == UInt8(ascii: "[") ? "]" : "}"
        index += 1
        skipSpace()
        if !consume(closing) {
          unclosed.append(closing)
          if closing == "}" { _ = try key() }
          continue
        }
      } else {
        _ = try value()
      }
      skipSpace()
      while let closing = unclosed.last, consume(closing) {
        unclosed.removeLast()
        skipSpace()
      }
      guard let closing = unclosed.last else { return }
      guard consume(",") else { throw error("a , or \(closing) is missing") }
      if closing == "}" { _ = try key() }
    } while true
  }

  private mutating func number() throws(JSONError) -> String {
    let start = index
    _ = consume("-")
    if !consume("0") { try digits() } else if isDigit { throw error("a number begins with 0") }
    if consume(".") { try digits() }
    if consume("e") || consume("E") {
      if !consume("+") { _ = consume("-") }
      try digits()
    }
    return String(decoding: bytes[start..<index], as: UTF8.self)
  }

  private var isDigit: Bool { next.map { (0x30...0x39).contains($0) } ?? false }

  private mutating func digits() throws(JSONError) {
    guard isDigit else { throw error("a digit is missing") }
    while isDigit { index += 1 }
  }
}

/// Reading strings.
extension JSONObjectReader {
  private mutating func string() throws(JSONError) -> String {
    index += 1
    var result: [UInt8] = []
    while let byte = next {
      switch byte {
      case UInt8(ascii: "\""):
        index += 1
        return String(decoding: result, as: UTF8.self)
      case UInt8(ascii: "\\"):
        index += 1
        result += Array(String(try escaped()).utf8)
      case 0..<0x20:
        throw error("a control character in a string is not escaped")
      default:
        result.append(byte)
        index += 1
      }
    }
    throw error("a string has no end")
  }

  private static let escapes: [UInt8: Unicode.Scalar] = [
    UInt8(ascii: "\""): "\"", UInt8(ascii: "\\"): "\\", UInt8(ascii: "/"): "/",
    UInt8(ascii: "b"): "\u{8}", UInt8(ascii: "f"): "\u{C}", UInt8(ascii: "n"): "\n",
    UInt8(ascii: "r"): "\r", UInt8(ascii: "t"): "\t",
  ]

  private mutating func escaped() throws(JSONError) -> Unicode.Scalar {
    if let byte = next, let scalar = Self.escapes[byte] {
      index += 1
      return scalar
    }
    guard consume("u") else { throw error("there is no such escape") }
    let first = try hexadecimal()
    if let scalar = Unicode.Scalar(first) { return scalar }
    // A character beyond the first 65,536 is escaped as two halves.
    guard (0xD800..<0xDC00).contains(first), consume("\\"), consume("u") else {
      throw error("half a character is missing")
    }
    let second = try hexadecimal()
    guard (0xDC00..<0xE000).contains(second),
      let scalar = Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
    else { throw error("half a character is missing") }
    return scalar
  }

  private mutating func hexadecimal() throws(JSONError) -> UInt32 {
    let digits = bytes[index...].prefix(4)
    guard digits.count == 4, digits.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }),
      let value = UInt32(String(decoding: digits, as: UTF8.self), radix: 16)
    else { throw error("an escape needs four hexadecimal digits") }
    index += 4
    return value
  }
}

/// The members of a JSON object by their keys; if a key occurs twice, the last member counts.
public struct JSONFields: Sendable {
  private var values: [String: JSONMember.Value] = [:]

  /// Reads an object; error messages call what it stands for `thing`.
  public init(_ text: String, standingFor thing: String) throws(JSONError) {
    for member in try JSONObjectReader.members(of: text, standingFor: thing) {
      values[member.key] = member.value
    }
  }

  /// The value of a member; nil if there is no such member.
  public subscript(key: String) -> JSONMember.Value? { values[key] }

  /// The text of a member; nil if it is no text.
  public func text(_ key: String) -> String? {
    if case .string(let text)? = values[key] { text } else { nil }
  }

  /// The text of a member that must be there.
  public func requiredText(_ key: String) throws(JSONError) -> String {
    guard let text = text(key) else { throw JSONError(description: "it has no \(key)") }
    return text
  }

  /// The number of a member; nil if it is not a whole number.
  public func number(_ key: String) -> Int64? {
    if case .number(let text)? = values[key] { Int64(text) } else { nil }
  }

  /// The duration of a member in milliseconds, which is never negative.
  public func milliseconds(_ key: String) -> Duration? {
    number(key).map { .milliseconds(max(0, $0)) }
  }

  /// Whether a member is `true`.
  public func isTrue(_ key: String) -> Bool { values[key] == .bool(true) }

  /// The texts of a list; nil if the member is no list.
  public func texts(_ key: String) -> [String]? {
    guard case .nested(let list)? = values[key],
      let elements = try? JSONObjectReader.elements(of: list, standingFor: key)
    else { return nil }
    return elements.compactMap { if case .string(let text) = $0 { text } else { nil } }
  }

  /// The objects of a list; nil if the member is no list.
  public func objects(
    _ key: String, standingFor thing: String
  ) throws(JSONError) -> [JSONFields]? {
    guard case .nested(let list)? = values[key] else { return nil }
    var objects: [JSONFields] = []
    for element in try JSONObjectReader.elements(of: list, standingFor: key) {
      if case .nested(let object) = element {
        objects.append(try JSONFields(object, standingFor: thing))
      }
    }
    return objects
  }
}
