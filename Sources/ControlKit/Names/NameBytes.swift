/// The name of a breaker as the store tells it from others: to Swift other bytes can be an equal text.
struct NameBytes: Sendable, Hashable {
  private let bytes: [UInt8]

  init(_ name: String) { bytes = Array(name.utf8) }
}
