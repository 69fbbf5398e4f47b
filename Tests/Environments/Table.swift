/// A Markdown table of environments by scenarios.
struct Table {
  private var lines: [[String]]

  init(of cells: [Cell]) {
    let environments = Self.unique(cells.map(\.environment.name))
    let scenarios = Self.unique(cells.map(\.scenario.name))
    let words = Dictionary(uniqueKeysWithValues: cells.map { ($0.title, $0.result.rawValue) })
    lines = [[""] + scenarios]
    lines += environments.map { environment in
      [environment] + scenarios.map { words["\(environment) / \($0)"] ?? "" }
    }
  }

  var text: String {
    let widths = lines[0].indices.map { column in lines.map { $0[column].count }.max() ?? 0 }
    let rule = widths.map { String(repeating: "-", count: $0) }
    return ([lines[0], rule] + lines.dropFirst()).map { line in
      let padded = zip(line, widths).map { text, width in
        text + String(repeating: " ", count: width - text.count)
      }
      return "| " + padded.joined(separator: " | ") + " |"
    }.joined(separator: "\n")
  }

  private static func unique(_ names: [String]) -> [String] {
    names.reduce(into: []) { names, name in
      if !names.contains(name) { names.append(name) }
    }
  }
}
