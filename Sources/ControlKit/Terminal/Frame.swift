/// The content of a screen, line by line.
struct Frame: Sendable, Hashable {
  var lines: [String] = []

  /// The output that turns an earlier frame into this one, with only the lines that differ.
  ///
  /// Without an earlier frame it writes every line, whatever the screen shows.
  func update(from earlier: Frame?) -> String {
    // Erase from the top, because there is no line below a frame that fills the screen.
    var text = earlier == nil ? Self.position(0) + "\u{1b}[J" : ""
    for (index, line) in lines.enumerated() where earlier?.line(index) != line {
      // Erase first, because after a line of full width the cursor is on its last character.
      text += Self.position(index) + "\u{1b}[K" + line
    }
    if let earlier, earlier.lines.count > lines.count {
      text += Self.position(lines.count) + "\u{1b}[J"
    }
    // A terminal that knows these sequences shows everything at once; others ignore them.
    return text.isEmpty ? "" : "\u{1b}[?2026h\(text)\u{1b}[?2026l"
  }

  private func line(_ index: Int) -> String? { index < lines.count ? lines[index] : nil }

  private static func position(_ index: Int) -> String { "\u{1b}[\(index + 1);1H" }
}
