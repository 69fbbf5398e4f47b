import BreakerDocuments
import SharedBreaker

extension StoreFinding {
  /// The finding as one line, which is wrapped between words if a width is given.
  func line(width: Int?, painter: Painter) -> String {
    var text = found
    if let means { text += ": \(means)" }
    if let repair { text += "; repair: \(repair)" }
    let word = result.word.padded(to: 4)
    let line = VisibleText.bare(text)
    let beginning = "\(word)  \(check.padded(to: 10))  "
    let lines =
      width.map { TextWrap.hanging(line, after: beginning, width: $0) } ?? [beginning + line]
    return lines.joined(separator: "\n")
      .replacing(word, with: painter.paint(word, result.color), maxReplacements: 1)
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
    case .bad: "BAD"
    default: "warn"
    }
  }

  fileprivate var color: Color? {
    switch self {
    case .ok: .green
    case .note: nil
    case .bad: .red
    default: .yellow
    }
  }
}

extension String {
  fileprivate func padded(to width: Int) -> String {
    self + String(repeating: " ", count: Swift.max(0, width - count))
  }
}
