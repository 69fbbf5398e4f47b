@_spi(Relay) package import SharedBreaker

/// The latest commands that a host has dealt with, by which others recognize them.
///
/// Numbers of messages prove nothing, because anyone who can write to the server can number messages.
/// So a host with a key signs which commands it has carried out, or knows to be overtaken: the latest
/// ones by their stamps.
package struct HeardCommands: Sendable, Hashable {
  /// How many are told; each takes thirteen bytes of every beat.
  package static let room = 32

  /// The stamp of each command, by its mark.
  private var stamps: [String: Int64] = [:]

  /// Commands up to this stamp may be missing.
  private var floor: Int64 = 0

  package init() {}

  /// The latest of the commands that a host remembers.
  package init(_ commands: [FleetCommand]) {
    for command in commands.sorted(by: { $0.stamp > $1.stamp }).prefix(2 * Self.room) {
      take(command)
    }
  }

  /// Adds the commands among some news that the host has not refused.
  mutating func take(_ news: [FleetNews], _ verdicts: [FleetVerdict]) {
    for (piece, verdict) in zip(news, verdicts) {
      if case .refused = verdict { continue }
      if let command = piece.command { take(command) }
    }
  }

  private mutating func take(_ command: FleetCommand) {
    guard command.stamp > floor, let mark = Self.mark(of: command) else { return }
    stamps[mark] = command.stamp
    while stamps.count > Self.room, let earliest = stamps.min(by: { $0.value < $1.value }) {
      floor = max(floor, earliest.value)
      stamps[earliest.key] = nil
    }
  }

  /// Twelve digits by which a host that knows a command recognizes it.
  private static func mark(of command: FleetCommand) -> String? {
    let text = SignedText(
      .command, of: "", [command.name, command.host, String(command.stamp)])
    return Digest.keyed(Array("the mark of a command".utf8), text.bytes).map {
      Digest.hexadecimal($0.prefix(6))
    }
  }

  /// Whether the host has dealt with a command; nil if it does not tell of one that old.
  package func has(_ command: FleetCommand) -> Bool? {
    if let mark = Self.mark(of: command), stamps[mark] != nil { return true }
    return command.stamp > floor ? false : nil
  }
}

/// As text.
extension HeardCommands {
  /// The highest stamp that may be missing, and the marks, with spaces between them.
  package var text: String {
    ([String(floor)] + stamps.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map(\.key))
      .joined(separator: " ")
  }

  /// Reads a text; nil if it makes no sense.
  package init?(_ text: String) {
    let words = text.split(separator: " ")
    guard let first = words.first, let floor = Int64(first), floor >= 0,
      words.count <= Self.room + 1
    else { return nil }
    self.floor = floor
    for mark in words.dropFirst() { stamps[String(mark)] = floor }
  }
}

extension FleetNews {
  /// The command, if it is one.
  var command: FleetCommand? {
    switch self {
    case .command(let command), .remembered(let command): command
    default: nil
    }
  }
}
