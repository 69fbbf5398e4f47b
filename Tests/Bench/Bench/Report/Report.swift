/// The results as a table of text.
enum TextReport {
  static func table(_ series: [Series]) -> String {
    let header = [
      "figure", "unit", "min", "median", "max", "against", "min", "median", "max", "reach",
      "reached", "values",
    ]
    let rows = [header] + series.map(row)
    let widths = header.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    let lines = rows.map { row in line(row, widths) }
    var text = lines[0] + "\n"
    var topic = ""
    for (series, line) in zip(series, lines.dropFirst()) {
      if series.subject.topic != topic {
        topic = series.subject.topic
        text += "\n\(topic)\n"
      }
      text += line + "\n"
      if let trouble = series.trouble { text += "    \(trouble)\n" }
    }
    return text + "\n" + summary(series) + "\n"
  }

  private static func line(_ row: [String], _ widths: [Int]) -> String {
    let isText: Set = [0, 1, 5, 9, 10, 11]
    let cells = row.indices.map { column in
      let padding = String(repeating: " ", count: widths[column] - row[column].count)
      return isText.contains(column) ? row[column] + padding : padding + row[column]
    }
    let line = cells.joined(separator: "  ")
    return String(line.reversed().drop { $0 == " " }.reversed())
  }

  private static func row(_ series: Series) -> [String] {
    let subject = series.subject
    let against = subject.comparison.map { ($0.kind == .difference ? "- " : "/ ") + $0.name } ?? ""
    let reached = series.isGoalReached.map { $0 ? "yes" : "NO" } ?? ""
    return ["  " + subject.name, subject.unit] + spread(series.values)
      + [against] + spread(series.compared)
      + [reach(subject), reached, "\(series.values.count) x \(subject.samples)"]
  }

  private static func spread(_ values: [Double]) -> [String] {
    guard let spread = Spread(values) else { return ["", "", ""] }
    return [spread.least, spread.median, spread.greatest].map(Digits.short)
  }

  private static func reach(_ subject: Subject) -> String {
    guard let goal = subject.goal else { return "" }
    let limit = "\(goal.side.rawValue) \(Digits.short(goal.limit))"
    let unit = subject.unit.isEmpty ? "" : " \(subject.unit)"
    guard goal.isOfComparison else { return limit + unit }
    switch subject.comparison?.kind {
    case .difference: return limit + unit + " more"
    case .ratio, nil: return limit + " times"
    }
  }

  private static func summary(_ series: [Series]) -> String {
    let reached = series.compactMap(\.isGoalReached)
    let missing = series.count { $0.subject.goal != nil && $0.isGoalReached == nil }
    let rest = missing == 0 ? "" : ", \(missing) not measured"
    return "\(reached.count { $0 }) of \(reached.count + missing) goals reached\(rest)"
  }
}

/// The results as one JSON document, with every value of every round.
enum JSONReport {
  static func document(_ series: [Series], host: String) -> String {
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
