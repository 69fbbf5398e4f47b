import TestSupport
import Testing

/// The rules of order, checked against the code, the models and the tests that they name.
@Suite struct RulesTests {
  private static let root = "/" + #filePath.split(separator: "/").dropLast(4).joined(separator: "/")

  private static func text(_ path: String) throws -> String {
    String(decoding: try Files.read(path), as: UTF8.self)
  }

  /// The texts of all files with such an ending, in a folder and those below it.
  private static func texts(in folder: String, _ ending: String) throws -> [String] {
    try Files.names(in: folder).filter { !$0.contains(".") || $0.hasSuffix(ending) }.flatMap {
      name in
      name.hasSuffix(ending)
        ? [try text("\(folder)/\(name)")] : try texts(in: "\(folder)/\(name)", ending)
    }
  }

  @Test func `the rules of order are numbered in order, and name what exists`() throws {
    let rules = try Self.text("\(Self.root)/Sources/Breaker/RulesOfOrder.md")
    let sources = try Self.texts(in: "\(Self.root)/Sources", ".swift")
    let tests = try Self.texts(in: "\(Self.root)/Tests", ".swift")
    let models = try Self.texts(in: "\(Self.root)/Tests/Evidence/Model", ".pml")
    let names = Files.names(in: "\(Self.root)/Tests/Evidence/Model")
    let rows = rules.matches(of: #/\n\| ([0-9]+) \|[^|]*\| ([^|]*) \| ([^|]*) \|/#)
    #expect(rows.map { Int($0.1) } == Array(1...rows.count).map { Int?.some($0) })
    for row in rows {
      for place in row.2.matches(of: #/`([\w.]+)`/#) {
        let path = place.1.split(separator: ".")
        let isThere = sources.contains { Self.declares(path, in: $0) }
        #expect(isThere, "rule \(row.1): \(place.1)")
      }
      for check in row.3.matches(of: #/`(\w+)`/#) {
        let isThere =
          tests.contains { $0.contains("struct \(check.1)") }
          || names.contains("\(check.1).pml") || models.contains { $0.contains(check.1) }
        #expect(isThere, "rule \(row.1): \(check.1)")
      }
    }
  }

  /// Whether a file declares a name such as `Engine.willFork`, with the type if there is one.
  private static func declares(_ path: [Substring], in text: String) -> Bool {
    guard let name = path.last else { return false }
    let members = ["func \(name)", "var \(name)", "let \(name)", "class \(name)", "struct \(name)"]
    guard members.contains(where: { text.contains($0) }) || name == "init" && text.contains("init(")
    else { return false }
    guard let type = path.dropLast().last else { return true }
    return ["struct", "class", "enum", "protocol", "extension"].contains {
      text.contains("\($0) \(type)")
    }
  }

  @Test func `each command of the puppet is in its table`() throws {
    let folder = "\(Self.root)/Tests/Evidence/Puppet"
    let code = try Self.text("\(folder)/Worker.swift")
    let table = try Self.text("\(folder)/README.md")
    let commands = code.matches(of: #/\n    "([a-z-]+)": \{/#).map { String($0.1) }
    let rows = table.matches(of: #/\n\| `([a-z-]+)[^`]*` \|/#).map { String($0.1) }
    #expect(commands.count > 40)
    #expect(rows.sorted() == commands.sorted())
  }
}
