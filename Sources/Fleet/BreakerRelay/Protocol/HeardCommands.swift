@_spi(Relay) package import SharedBreaker

/// The commands that a host has dealt with, by which others recognize them.
///
/// Numbers of messages prove nothing, because any writer to the server can number messages. So a host
/// says which commands it has carried out, or knows to be overtaken: the latest ones by their stamps one by
/// one, and all together as one sum.
package struct HeardCommands: Sendable {
  /// How many are told one by one; each takes thirteen bytes of every beat.
  package static let room = 32

  private struct Order: Hashable {
    var stamp: Int64
    var host: String
  }

  /// The latest command about each aspect.
  private var latest: [FleetState.CommandPlace: Order] = [:]

  /// The stamp of each of the latest commands, by its mark.
  private var stamps: [String: Int64] = [:]
  private var isSummed = false
  private var sum = ""

  package init(_ commands: [FleetCommand] = []) {
    for command in commands { take(command) }
  }

  /// Adds the commands among some news that the host has not refused.
  mutating func take(_ news: [FleetNews], _ verdicts: [FleetVerdict]) {
    for (piece, verdict) in zip(news, verdicts) {
      if case .refused = verdict { continue }
      if let command = piece.command { take(command) }
    }
  }

  /// Adds a command.
  package mutating func take(_ command: FleetCommand) {
    for aspect in command.byAspect.keys {
      let place = FleetState.CommandPlace(name: command.name, aspect: aspect)
      if let known = latest[place] {
        var other = command
        (other.stamp, other.host) = (known.stamp, known.host)
        guard command.isLater(than: other) else { continue }
      }
      latest[place] = Order(stamp: command.stamp, host: command.host)
      isSummed = false
    }
    guard stamps.count < Self.room || stamps.values.contains(where: { $0 < command.stamp }),
      let mark = Self.mark(of: command)
    else { return }
    stamps[mark] = command.stamp
    while stamps.count > Self.room, let earliest = stamps.min(by: { $0.value < $1.value }) {
      stamps[earliest.key] = nil
    }
  }

  /// Twelve digits by which a host that knows a command recognizes it.
  fileprivate static func mark(of command: FleetCommand) -> String? {
    mark(name: command.name, host: command.host, stamp: command.stamp)
  }

  private static func mark(name: String, host: String, stamp: Int64) -> String? {
    let text = SignedText(.command, of: "", [name, host, String(stamp)])
    return Digest.keyed(Array("the mark of a command".utf8), text.bytes).map {
      Digest.hexadecimal($0.prefix(6))
    }
  }

  /// Whether a command is among those that are told one by one.
  func hasMark(of refused: RefusedCommand) -> Bool {
    Self.mark(name: refused.name, host: refused.host, stamp: refused.stamp)
      .map { stamps[$0] != nil } ?? false
  }

  /// Whether these have a command as the latest one about all of its aspects.
  fileprivate func hasLatest(_ command: FleetCommand) -> Bool {
    let order = Order(stamp: command.stamp, host: command.host)
    return command.byAspect.keys.allSatisfy {
      latest[FleetState.CommandPlace(name: command.name, aspect: $0)] == order
    }
  }

  /// The sum and the marks, as they are told.
  package mutating func told() -> HeardMarks {
    if !isSummed {
      let words = latest.map { "\($0.field)\n\($1.stamp)\n\($1.host)" }.sorted()
      let text = SignedText(.command, of: "", words)
      sum =
        Digest.keyed(Array("the sum of commands".utf8), text.bytes).map {
          Digest.hexadecimal($0.prefix(16))
        } ?? ""
      isSummed = true
    }
    return HeardMarks(sum: sum, marks: Set(stamps.keys))
  }
}

/// The commands that a host says to have dealt with.
package struct HeardMarks: Sendable, Hashable {
  fileprivate var sum: String
  fileprivate var marks: Set<String>

  fileprivate init(sum: String, marks: Set<String>) {
    self.sum = sum
    self.marks = marks
  }

  package init() { self.init(sum: "", marks: []) }

  /// The sum and the marks, with spaces between them.
  package var text: String { ([sum] + marks.sorted()).joined(separator: " ") }

  /// Reads a text.
  package init(_ text: String) {
    let words = text.split(separator: " ").map(String.init)
    self.init(sum: words.first ?? "", marks: Set(words.dropFirst()))
  }

  /// Whether the host has dealt with a command that a reader knows.
  ///
  /// If both have dealt with the same commands, that includes all that are too old to have a mark.
  package func has(_ command: FleetCommand, knowing own: HeardCommands) -> Bool {
    if let mark = HeardCommands.mark(of: command), marks.contains(mark) { return true }
    var own = own
    return !sum.isEmpty && own.hasLatest(command) && own.told().sum == sum
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
