/// The name of a breaker compared by its bytes, as in the store; Swift compares by characters.
struct NameBytes: Sendable, Hashable {
  private let bytes: [UInt8]

  init(_ name: String) { bytes = Array(name.utf8) }
}
