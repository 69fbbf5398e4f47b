import TestSupport
import Testing

/// The map of the source in CONTRIBUTING, checked against the source.
@Suite struct MapTests {
  static let root = "/" + #filePath.split(separator: "/").dropLast(4).joined(separator: "/")

  static func section(_ heading: String) throws -> String {
    let text = try #require(Golden.read("\(root)/CONTRIBUTING.md"))
    let from = try #require(text.firstRange(of: "\n## \(heading)\n")).upperBound
    let to = text[from...].firstRange(of: "\n## ")?.lowerBound
    return String(text[from..<(to ?? text.endIndex)])
  }

  /// The paths of all Swift files in a folder and those below it.
  private static func files(in folder: String) -> [String] {
    Files.names(in: folder).filter { !$0.hasPrefix(".") }.flatMap { name in
      name.hasSuffix(".swift") ? ["\(folder)/\(name)"] : files(in: "\(folder)/\(name)")
    }
  }

  @Test func `each decision is in the file that the map names`() throws {
    let row = #/\| `([\w+\/]+\.(?:swift|py))`: (.*) \|/#
    let rows = try Self.section("Where each decision is made").matches(of: row)
    #expect(rows.count > 10)
    for row in rows {
      let text = try #require(Golden.read("\(Self.root)/Sources/\(row.1)"), "\(row.1)")
      for name in row.2.matches(of: #/`(\w+)`/#) {
        let isThere =
          row.1.hasSuffix(".py")
          ? text.contains("def \(name.1)(") : SourceText(text).words(in: String(name.1)) != nil
        #expect(isThere, "\(row.1) has no \(name.1)")
      }
    }
  }

  @Test func `each rule of order names code, models and tests that exist`() throws {
    let sources = Self.files(in: "\(Self.root)/Sources").compactMap { Golden.read($0) }
    let tests = Self.files(in: "\(Self.root)/Tests").compactMap { Golden.read($0) }
    let folder = "\(Self.root)/Tests/Evidence/Model"
    let models = Files.names(in: folder).compactMap { Golden.read("\(folder)/\($0)") }
    let row = #/\n\| ([0-9]+) \|[^|]*\| ([^|]*) \| ([^|]*) \|/#
    let rows = try Self.section("Rules of order").matches(of: row)
    #expect(rows.count > 20)
    for row in rows {
      for place in row.2.matches(of: #/`([\w.]+)`/#) {
        let path = place.1.split(separator: ".").map { String($0) }
        let isThere = sources.contains { Self.declares(path, in: $0) }
        #expect(isThere, "rule \(row.1): \(place.1)")
      }
      for check in row.3.matches(of: #/`(\w+)`/#) {
        let isThere =
          tests.contains { $0.contains("struct \(check.1)") }
          || models.contains { $0.contains(check.1) }
        #expect(isThere, "rule \(row.1): \(check.1)")
      }
    }
  }

  /// Whether a file declares a name such as `Engine.willFork`, in the type if there is one.
  private static func declares(_ path: [String], in text: String) -> Bool {
    guard let name = path.last, text.contains(name) else { return false }
    let type = path.dropLast().last
    let isInType = type.map { type in
      ["struct", "class", "enum", "extension"].contains { text.contains("\($0) \(type)") }
    }
    return isInType != false && SourceText(text).words(in: name) != nil
  }

  @Test(arguments: ["BreakerCore", "BreakerStore", "SharedBreaker", "ControlKit", "BreakerRelay"])
  func `each room of a layer is in the map`(layer: String) throws {
    let map = try Self.section("Which room holds what")
    let folder = "\(Self.root)/Sources/\(layer)/"
    let rooms = Set(
      Self.files(in: String(folder.dropLast())).compactMap { path in
        path.dropFirst(folder.count).split(separator: "/").dropLast().first
      })
    for room in rooms {
      #expect(map.contains("`\(layer)/\(room)`") || map.contains("`\(room)`"), "\(layer)/\(room)")
    }
  }

  @Test func `each folder of the tests is in the map`() throws {
    let map = try Self.section("Which room holds what")
    let folders = Files.names(in: "\(Self.root)/Tests").filter { !$0.hasPrefix(".") }
    #expect(folders.count > 20)
    for folder in folders { #expect(map.contains("`\(folder)`"), "\(folder)") }
  }

  @Test func `each command of the puppet is in its table`() throws {
    let folder = "\(Self.root)/Tests/Evidence/Puppet"
    let code = try #require(Golden.read("\(folder)/Worker.swift"))
    let table = try #require(Golden.read("\(folder)/README.md"))
    let commands = code.matches(of: #/\n    "([a-z-]+)": \{/#).map { String($0.1) }
    let rows = table.matches(of: #/\n\| `([a-z-]+)[^`]*` \|/#).map { String($0.1) }
    #expect(commands.count > 40)
    #expect(rows.sorted() == commands.sorted())
  }
}
