/// A breaker's name by its bytes, as the file compares it: to Swift other bytes can be an equal text.
package struct NameBytes: Sendable, Hashable {
  private let name: String

  package init(_ name: String) { self.name = name }

  var bytes: String.UTF8View { name.utf8 }

  /// Whether the file lists it before another name.
  func precedes(_ other: NameBytes) -> Bool { bytes.lexicographicallyPrecedes(other.bytes) }

  package static func == (left: NameBytes, right: NameBytes) -> Bool {
    left.name.utf8.elementsEqual(right.name.utf8)
  }

  package func hash(into hasher: inout Hasher) {
    var name = name
    name.withUTF8 { unsafe hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
  }
}
