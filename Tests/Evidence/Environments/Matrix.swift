import BreakerStore
import Glibc
import TestSupport

/// Every scenario in every environment, several at a time.
struct Matrix {
  var environments = Environment.all
  var scenarios = Scenario.all

  /// A text that the titles of the played cells contain.
  var only = ""

  /// The number of cells played at the same time; each spends most of its time waiting.
  var jobs = 6

  /// Plays the cells and prints their table.
  ///
  /// - Returns: Whether none of them failed.
  func run() -> Bool {
    let start = Scene.now()
    let cells = played(planned())
    put(Table(of: cells).text)
    put("\(cells.count) cells in \((Scene.now() - start) / 1_000_000_000) s")
    return cells.allSatisfy { $0.result != .failed }
  }

  /// The cells to play; prints why the others are left out.
  private func planned() -> [Cell] {
    environments.flatMap { environment in
      let cells = scenarios.map { Cell(environment: environment, scenario: $0) }
        .filter { only.isEmpty || $0.title.contains(only) }
      guard !cells.isEmpty else { return cells }
      let refusal = refusal(of: environment)
      if let refusal { put("left out: \(environment.name): \(refusal)") }
      return cells.map { cell in
        var cell = cell
        if refusal != nil || (cell.scenario.needsRoot && !isSuperuser) { cell.result = .leftOut }
        return cell
      }
    }
  }

  /// Why an environment cannot be created here; nil if it can.
  private func refusal(of environment: Environment) -> String? {
    if environment.needsRoot, !isSuperuser { return "it needs root" }
    do {
      let told = try Scene(in: environment).run(.inside, ["true"])
      return told.code == 0 ? nil : told.text.inOneLine
    } catch {
      return "\(error)"
    }
  }

  private func played(_ cells: [Cell]) -> [Cell] {
    let all = Guarded(cells)
    let next = Guarded(cells.startIndex)
    Threads.run(jobs) { _ in
      while true {
        let index = next.withLock { next in
          defer { next += 1 }
          return next
        }
        guard cells.indices.contains(index) else { return }
        guard cells[index].result == .planned else { continue }
        let result = play(cells[index])
        all.withLock { $0[index].result = result }
      }
    }
    return all.withLock { $0 }
  }

  private func play(_ cell: Cell) -> Cell.Result {
    let problems = problems(of: cell)
    guard !problems.isEmpty else { return .passed }
    let shown = problems.prefix(8) + (problems.count > 8 ? ["and \(problems.count - 8) more"] : [])
    put("RED: \(cell.title):" + shown.map { "\n    \($0)" }.joined())
    // Real clocks and processes can be too slow once. A cell that is broken fails again.
    guard self.problems(of: cell).isEmpty else { return .failed }
    put("ok when played again: \(cell.title)")
    return .passed
  }

  private func problems(of cell: Cell) -> [String] {
    do {
      let scene = try Scene(in: cell.environment)
      do { try cell.scenario.play(scene) } catch { scene.ended(by: error) }
      if let remark = scene.remark { put("\(cell.title): \(remark)") }
      return scene.problems
    } catch {
      return ["\(error)"]
    }
  }

  /// Prints at once, even into a pipe.
  private func put(_ text: String) {
    let bytes = Array((text + "\n").utf8)
    _ = unsafe write(1, bytes, bytes.count)
  }
}

/// One scenario in one environment, and how it ended.
struct Cell: Sendable {
  enum Result: String {
    case planned = ""
    case passed = "ok"
    case failed = "RED"
    case leftOut = "-"
  }

  var environment: Environment
  var scenario: Scenario
  var result = Result.planned

  var title: String { "\(environment.name) / \(scenario.name)" }
}

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
