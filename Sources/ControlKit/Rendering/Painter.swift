/// The colours, each of which has a meaning.
enum Color: String, Sendable, Hashable {
  case red = "31"
  case green = "32"
  case yellow = "33"
  case bold = "1"
  case faint = "2"
}

/// Colours text, or leaves it unchanged if colours are off.
struct Painter: Sendable, Hashable {
  var isOn: Bool

  func paint(_ text: String, _ color: Color?) -> String {
    guard isOn, let color, !text.isEmpty else { return text }
    return "\u{1b}[\(color.rawValue)m\(text)\u{1b}[0m"
  }
}
