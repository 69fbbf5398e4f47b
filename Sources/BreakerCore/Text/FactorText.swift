/// Plain decimal numbers such as `1.5`, without a sign, an exponent or words.
enum FactorText {
  static func parse(_ text: String) -> Double? {
    let isPlain = text.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == 0x2E }
    return isPlain && !text.isEmpty && text.utf8.count <= 20 ? Double(text) : nil
  }

  static func format(_ factor: Double) -> String {
    let text = String(factor)
    return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
  }
}
