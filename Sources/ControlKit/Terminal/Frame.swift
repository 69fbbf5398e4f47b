/// What stands on a screen, line by line.
struct Frame: Sendable, Hashable {
  var lines: [String] = []

  /// What turns an earlier frame on the screen into this one: only lines that differ are written.
  ///
  /// Without an earlier one all is written, whatever is there.
  func update(from earlier: Frame?) -> String {
    // Erased from the top, for below a frame that fills the screen there is no line to stand on.
    var text = earlier == nil ? Self.position(0) + "\u{1b}[J" : ""
    for (index, line) in lines.enumerated() where earlier?.line(index) != line {
      // Erased first: behind a line of full width the cursor stands on its last character.
      text += Self.position(index) + "\u{1b}[K" + line
    }
    if let earlier, earlier.lines.count > lines.count {
      text += Self.position(lines.count) + "\u{1b}[J"
    }
    // A terminal that knows these shows all of it at once, and another one ignores them.
    return text.isEmpty ? "" : "\u{1b}[?2026h\(text)\u{1b}[?2026l"
  }

  private func line(_ index: Int) -> String? { index < lines.count ? lines[index] : nil }

  private static func position(_ index: Int) -> String { "\u{1b}[\(index + 1);1H" }
}
