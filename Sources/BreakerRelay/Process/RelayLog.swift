internal import JSONText
internal import SharedBreaker

/// What a relay reports: a line for each change of its health.
package struct RelayLog: Sendable {
  /// The kinds of lines, by which programs tell them apart.
  package enum Kind: String, Sendable {
    case started, waiting, connected, catchingUp = "catching_up", problem, refused, overtaken
    case ended
  }

  private let isJSON: Bool
  private let write: @Sendable (String) -> Void

  /// Creates a log; `write` gets whole lines.
  package init(isJSON: Bool, write: @escaping @Sendable (String) -> Void) {
    self.isJSON = isJSON
    self.write = write
  }

  package func report(_ kind: Kind, _ words: String) {
    guard isJSON else {
      write("cbrelay: \(OutsideText.visible(words))\n")
      return
    }
    let document = JSONValue.object([
      .init("at", .string(StoreClock.system.wallTime.description)),
      .init("event", .string(kind.rawValue)), .init("message", .string(words)),
    ])
    write(document.text + "\n")
  }
}
