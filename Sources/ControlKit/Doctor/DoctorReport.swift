import BreakerDocuments
import SharedBreaker

extension StoreFinding {
  /// The finding as one line, with line breaks in its text made visible.
  func line(_ painter: Painter) -> String {
    var text = found
    if let means { text += ": \(means)" }
    if let repair { text += "; repair: \(repair)" }
    let word = painter.paint(result.word.padded(to: 4), result.color)
    return "\(word)  \(check.padded(to: 10))  \(VisibleText.bare(text))"
  }

  fileprivate var json: JSONValue {
    .object([
      .init("check", .string(check)),
      .init("result", .string(result.rawValue)),
      .init("found", .string(found)),
      .init("means", JSONValue(means)),
      .init("repair", JSONValue(repair)),
    ])
  }
}

extension [StoreFinding] {
  /// The document of `doctor --json`.
  func document(of store: String) -> JSONValue {
    .object([
      .init("store", .string(store)),
      .init("well", .bool(allSatisfy(\.isWell))),
      .init("checks", .array(map(\.json))),
    ])
  }
}

extension StoreFinding.Result {
  fileprivate var word: String {
    switch self {
    case .ok: "ok"
    case .note: "note"
    case .warning: "warn"
    case .bad: "BAD"
    }
  }

  fileprivate var color: Color? {
    switch self {
    case .ok: .green
    case .note: nil
    case .warning: .yellow
    case .bad: .red
    }
  }
}

extension String {
  fileprivate func padded(to width: Int) -> String {
    self + String(repeating: " ", count: Swift.max(0, width - count))
  }
}
