/// An answer of a Redis server.
package enum RedisReply: Sendable, Hashable {
  case nothing
  case integer(Int64)
  case bytes([UInt8])
  case error(String)
  case array([RedisReply])

  /// The answer as text; nil if it is none, or not UTF-8.
  package var text: String? {
    guard case .bytes(let bytes) = self else { return nil }
    return String(validating: bytes, as: UTF8.self)
  }

  /// The answer as a whole number, which may have been sent as text.
  package var number: Int64? {
    if case .integer(let number) = self { return number }
    return text.flatMap { Int64($0) }
  }

  /// The answer as a number from 0 to a limit; nil if it is anything else.
  ///
  /// Whatever is computed with numbers from the server has to pass here, so that it cannot overflow.
  package func number(upTo limit: Int64) -> Int64? {
    number.flatMap { (0...limit).contains($0) ? $0 : nil }
  }

  package var elements: [RedisReply]? {
    guard case .array(let elements) = self else { return nil }
    return elements
  }

  /// The fields and values of an answer that lists them in turn.
  package var pairs: [(field: RedisReply, value: RedisReply)]? {
    guard let elements, elements.count % 2 == 0 else { return nil }
    return stride(from: 0, to: elements.count, by: 2).map { (elements[$0], elements[$0 + 1]) }
  }
}
