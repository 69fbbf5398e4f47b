import SharedBreaker

/// A policy, one aligned line for each word, with the source of its value.
enum PolicyTable {
  static func render(
    _ snapshot: BreakerSnapshot, painter: Painter = Painter(isOn: false)
  ) -> [String] {
    let rows = PolicyKey.allCases.compactMap { key in
      snapshot.policy.text(for: key).map { (key, $0) }
    }
    let labelWidth = rows.map { $0.0.rawValue.count }.max() ?? 0
    let valueWidth = rows.map { $0.1.count }.max() ?? 0
    return rows.map { key, text in
      let source = snapshot.source(of: key)
      return key.rawValue + String(repeating: " ", count: labelWidth - key.rawValue.count + 2)
        + text + String(repeating: " ", count: valueWidth - text.count + 2)
        + painter.paint(source.wireName, color(of: source))
    }
  }

  /// Marks an operator's values, which win over the code's and are easily forgotten.
  private static func color(of source: PolicySource) -> Color? {
    switch source {
    case .default: .faint
    case .code: nil
    case .operator: .yellow
    @unknown default: nil
    }
  }
}
