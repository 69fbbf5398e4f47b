/// A strict reader of Prometheus' text format, which fails where promtool would complain.
struct Exposition {
  struct Complaint: Error, CustomStringConvertible {
    var description: String
  }

  struct Series: Hashable {
    var name: String
    var labels: [String: String]
  }

  private(set) var values: [Series: Double] = [:]
  private(set) var types: [String: String] = [:]

  /// The families in the order of the text.
  private(set) var families: [String] = []

  init(_ text: String) throws {
    guard text.hasSuffix("\n") else { throw Complaint(description: "the last line has no end") }
    var helped = ""
    for line in text.dropLast().split(separator: "\n", omittingEmptySubsequences: false) {
      if line.hasPrefix("# HELP ") {
        let words = line.split(separator: " ", maxSplits: 3)
        guard words.count == 4 else { throw Complaint(description: "no help: \(line)") }
        helped = String(words[2])
      } else if line.hasPrefix("# TYPE ") {
        let words = line.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 4, words[2] == helped,
          ["gauge", "counter", "histogram"].contains(words[3]),
          types.updateValue(String(words[3]), forKey: helped) == nil,
          helped.hasSuffix("_total") == (words[3] == "counter")
        else { throw Complaint(description: "a wrong or second type: \(line)") }
        families.append(helped)
      } else {
        try read(line)
      }
    }
  }

  private mutating func read(_ line: Substring) throws {
    var rest = line
    let name = String(rest.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") })
    rest = rest.dropFirst(name.count)
    let parts = types[families.last ?? ""] == "histogram" ? ["_bucket", "_sum", "_count"] : [""]
    guard let family = families.last, parts.contains(where: { name == family + $0 }) else {
      throw Complaint(description: "not of the family before it: \(line)")
    }
    var labels: [String: String] = [:]
    if rest.first == "{" { labels = try Self.labels(&rest) }
    guard rest.first == " ", let value = Double(rest.dropFirst()), value.isFinite, value >= 0,
      values.updateValue(value, forKey: Series(name: name, labels: labels)) == nil
    else { throw Complaint(description: "no value, or a second one: \(line)") }
  }

  private static func isOfName(_ scalar: Unicode.Scalar) -> Bool {
    scalar.isASCII && (scalar == "_" || Character(scalar).isLetter || Character(scalar).isNumber)
  }

  /// Takes the labels from the front of a text, scalar by scalar as in the format.
  private static func labels(_ rest: inout Substring) throws -> [String: String] {
    var scalars = rest.unicodeScalars.dropFirst()
    var labels: [String: String] = [:]
    while true {
      let name = String(scalars.prefix(while: Self.isOfName))
      scalars = scalars.dropFirst(name.unicodeScalars.count)
      guard !name.isEmpty, scalars.popFirst() == "=", scalars.popFirst() == "\"" else {
        throw Complaint(description: "no label: \(rest)")
      }
      var value = String.UnicodeScalarView()
      while let scalar = scalars.popFirst(), scalar != "\"" {
        guard scalar == "\\" else {
          value.append(scalar)
          continue
        }
        switch scalars.popFirst() {
        case "\\": value.append("\\")
        case "\"": value.append("\"")
        case "n": value.append("\n")
        default: throw Complaint(description: "no such escape: \(rest)")
        }
      }
      guard labels.updateValue(String(value), forKey: name) == nil else {
        throw Complaint(description: "a label twice: \(rest)")
      }
      switch scalars.popFirst() {
      case ",": continue
      case "}":
        rest = Substring(scalars)
        return labels
      default: throw Complaint(description: "no end of labels: \(rest)")
      }
    }
  }
}
