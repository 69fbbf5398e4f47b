/// Prints what was measured: a table for people, or one JSON document.
enum Report {
  static func table(_ series: [Series]) -> String {
    let header = ["figure", "unit", "min", "median", "max", "against", "min", "median", "max"]
    let rows = [header] + series.map(row)
    let widths = header.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    return rows.map { row in
      row.indices.map { column in
        let padding = String(repeating: " ", count: widths[column] - row[column].count)
        return [0, 1, 5].contains(column) ? row[column] + padding : padding + row[column]
      }.joined(separator: "  ")
    }.joined(separator: "\n") + "\n"
  }

  private static func row(_ series: Series) -> [String] {
    let figure = series.figure
    let own = [figure.name, figure.unit] + spread(series.values)
    guard let floor = figure.floor, !series.compared.isEmpty else {
      return own + ["", "", "", ""]
    }
    return own + [(figure.isDifference ? "- " : "/ ") + floor] + spread(series.compared)
  }

  private static func spread(_ values: [Double]) -> [String] {
    [values.min() ?? .nan, median(values), values.max() ?? .nan].map(number)
  }

  /// Three digits that count.
  private static func number(_ value: Double) -> String {
    guard value.isFinite else { return "-" }
    if value.magnitude >= 100 { return String(Int(value + (value < 0 ? -0.5 : 0.5))) }
    let factor: Double = value.magnitude >= 10 ? 10 : 100
    return String(Double(Int(value * factor + (value < 0 ? -0.5 : 0.5))) / factor)
  }

  static func json(_ series: [Series]) -> String {
    let figures = series.map { series in
      let figure = series.figure
      let floor = figure.floor.map { ",\"against\":\"\($0)\"" } ?? ""
      let kind = figure.isDifference ? "difference" : "ratio"
      let compared =
        series.compared.isEmpty ? "" : ",\"\(kind)\":[\(list(series.compared))]"
      return "{\"figure\":\"\(figure.name)\",\"unit\":\"\(figure.unit)\","
        + "\"values\":[\(list(series.values))]\(floor)\(compared)}"
    }
    return "{\"figures\":[\(figures.joined(separator: ","))]}\n"
  }

  private static func list(_ values: [Double]) -> String {
    values.map { String($0) }.joined(separator: ",")
  }
}
