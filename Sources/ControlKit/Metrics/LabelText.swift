/// A label that the command line adds to every sample, as `store=payments`.
enum LabelText {
  /// The labels that samples already have.
  static let taken: Set<String> = [
    "name", "state", "mode", "to", "outcome", "file", "version", "sqlite",
    "fleet",
  ]

  static func parse(_ text: String) throws(ControlError) -> Sample.Label {
    func wrong(_ why: String) -> ControlError {
      .usage("wrong label \(VisibleText.quoted(text))", why, help: "metrics")
    }
    guard let separator = text.utf8.firstIndex(of: UInt8(ascii: "=")) else {
      throw wrong("it has no value")
    }
    let name = String(text[..<separator])
    let isName = name.utf8.enumerated().allSatisfy { index, byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
      case UInt8(ascii: "_"): true
      case UInt8(ascii: "0")...UInt8(ascii: "9"): index > 0
      default: false
      }
    }
    // Names that begin with two underscores are reserved for Prometheus.
    guard isName, !name.isEmpty, !name.hasPrefix("__") else {
      throw wrong("its name may have letters, digits and _ only")
    }
    guard !taken.contains(name) else { throw wrong("samples already have that label") }
    return Sample.Label(name: name, value: String(text[text.utf8.index(after: separator)...]))
  }

  /// All labels of a command line, none of which may occur twice.
  static func parse(_ texts: [String]) throws(ControlError) -> [Sample.Label] {
    var labels: [Sample.Label] = []
    for text in texts {
      let label = try parse(text)
      guard !labels.contains(where: { $0.name == label.name }) else {
        throw .usage(
          "wrong label \(VisibleText.quoted(text))", "it was given twice", help: "metrics")
      }
      labels.append(label)
    }
    return labels
  }
}
