/// The results as one JSON document, with every value of every round.
package enum JSONReport {
  package static func document(_ series: [Series], host: String) -> String {
    "{\"host\":\(text(host)),\"figures\":[\n\(series.map(object).joined(separator: ",\n"))\n]}\n"
  }

  private static func object(_ series: Series) -> String {
    let subject = series.subject
    var members = [
      ("topic", text(subject.topic)), ("figure", text(subject.name)), ("unit", text(subject.unit)),
      ("samples", text(subject.samples)), ("values", list(series.values)),
    ]
    if let comparison = subject.comparison {
      members.append(("against", text(comparison.name)))
      members.append((comparison.kind.rawValue, list(series.compared)))
    }
    if let goal = subject.goal {
      let of = goal.isOfComparison ? subject.comparison?.kind.rawValue ?? "" : "values"
      members.append(
        ("reach", "{\"median_of\":\(text(of)),\(text(goal.side.rawValue)):\(number(goal.limit))}"))
      members.append(("reached", series.isGoalReached.map { "\($0)" } ?? "null"))
    }
    if let trouble = series.trouble { members.append(("trouble", text(trouble))) }
    return "{" + members.map { "\"\($0)\":\($1)" }.joined(separator: ",") + "}"
  }

  private static func list(_ values: [Double]) -> String {
    "[" + values.map(number).joined(separator: ",") + "]"
  }

  private static func number(_ value: Double) -> String { value.isFinite ? "\(value)" : "null" }

  static func text(_ text: String) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"", "\\": result += "\\\(scalar)"
      case "\u{0}"..<" ":
        let digits = String(scalar.value, radix: 16)
        result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result + "\""
  }
}
