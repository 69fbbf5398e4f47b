/// The keys of a live view.
enum Key: Sendable, Hashable {
  case quit, redraw, up, down, pageUp, pageDown, top, bottom
}

/// Turns the bytes that a terminal sends into keys; a key's bytes can arrive in pieces.
struct Keys: Sendable {
  private var rest: [UInt8] = []

  private static let escape: UInt8 = 0x1B
  private static let letters: [UInt8: Key] = [
    UInt8(ascii: "q"): .quit, UInt8(ascii: "Q"): .quit, 0x0C: .redraw,
    UInt8(ascii: "k"): .up, UInt8(ascii: "j"): .down, UInt8(ascii: "\n"): .down,
    UInt8(ascii: "\r"): .down, UInt8(ascii: "b"): .pageUp, UInt8(ascii: "f"): .pageDown,
    UInt8(ascii: " "): .pageDown, UInt8(ascii: "g"): .top, UInt8(ascii: "G"): .bottom,
  ]
  private static let sequences: [String: Key] = [
    "A": .up, "B": .down, "H": .top, "F": .bottom, "5~": .pageUp, "6~": .pageDown,
    "1~": .top, "7~": .top, "4~": .bottom, "8~": .bottom,
  ]

  /// The keys that the bytes complete; it skips sequences without a meaning.
  mutating func read(_ bytes: [UInt8]) -> [Key] {
    rest += bytes
    var keys: [Key] = []
    while let first = rest.first {
      guard first == Self.escape else {
        if let key = Self.letters[first] { keys.append(key) }
        rest.removeFirst()
        continue
      }
      guard let length = sequenceLength() else { break }
      let parameters = String(decoding: rest[..<length].dropFirst(2), as: UTF8.self)
      if let key = Self.sequences[parameters] { keys.append(key) }
      rest.removeFirst(length)
    }
    return keys
  }

  /// The length of the sequence at the beginning; nil if it is not complete.
  private func sequenceLength() -> Int? {
    guard rest.count > 1 else { return nil }
    let isSequence = rest[1] == UInt8(ascii: "[") || rest[1] == UInt8(ascii: "O")
    guard isSequence else { return 1 }
    return rest.indices.dropFirst(2).first { (0x40...0x7E).contains(rest[$0]) }.map { $0 + 1 }
  }
}
