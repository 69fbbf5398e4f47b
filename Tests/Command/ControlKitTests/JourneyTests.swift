import TestSupport
import Testing

/// The journeys in CONTRIBUTING, followed through the code.
@Suite struct JourneyTests {
  private static func source(_ path: String) -> SourceText? {
    Golden.read("\(MapTests.root)/Sources/\(path)").map { SourceText($0) }
  }

  @Test func `each step of a journey is used by an earlier one`() throws {
    let journeys = Journey.all(in: try MapTests.section("Journeys"))
    #expect(journeys.count >= 7)
    for journey in journeys {
      #expect(journey.complaints(reading: Self.source) == [], "\(journey.title)")
    }
  }

  private static let house = [
    "Door.swift": "func enter() {\n  // cellar()\n  hall()\n}\nfunc leave() {\n  garden()\n}\n",
    "Hall.swift": "func hall() { post(\"letter\") }\n",
    "Garden.swift": "struct Garden {\n  init() { read(\"letter\") }\n}\nfunc garden() {}\n",
    "Cellar.swift": "func cellar() {}\n",
  ]

  /// What is wrong with a journey through a house.
  private func complaints(_ text: String) -> [String] {
    Journey.all(in: "Journeys\n### \(text)\n").flatMap { journey in
      journey.complaints { Self.house[$0].map { SourceText($0) } }
    }
  }

  @Test func `a journey from caller to callee is right`() {
    #expect(complaints("In: 2 files\n\n1. `Door.swift`: `enter`.\n2. `Hall.swift`: `hall`.") == [])
  }

  @Test func `a journey may go on in another process that uses the same word`() {
    let text =
      "1. `Hall.swift`: `hall`.\n\n*Somebody gets the `letter`:*\n\n2. `Garden.swift`: `init`."
    #expect(complaints("Post: 2 files\n\n" + text) == [])
    #expect(
      complaints("Post: 2 files\n\n" + text.replacing("`letter`", with: "`parcel`"))
        == ["no step before uses parcel", "no step after uses parcel"])
  }

  @Test(arguments: [
    ("1. `Roof.swift`: `roof`.", "1: Roof.swift does not exist"),
    ("1. `Door.swift`: `cellar`.", "1: Door.swift does not declare cellar"),
    ("2. `Door.swift`: `enter`.", "1: is numbered 2"),
    ("1. `Door.swift` is empty.", "1: Door.swift: names nothing"),
  ])
  func `a step that is wrong by itself is noticed`(step: String, complaint: String) {
    #expect(complaints("In: 1 files\n\n" + step) == [complaint])
  }

  @Test(arguments: [
    // Only a comment of the caller mentions it.
    ("`enter`", "2. `Cellar.swift`: `cellar`.", "2: no earlier step uses cellar"),
    // A declaration that the journey does not pass mentions it.
    ("`enter`", "2. `Garden.swift`: `garden`.", "2: no earlier step uses garden"),
  ])
  func `a step that no earlier one uses is noticed`(
    first: String, second: String, complaint: String
  ) {
    #expect(
      complaints("In: 2 files\n\n1. `Door.swift`: \(first).\n\(second)") == [complaint])
  }

  @Test func `a wrong number of files is noticed`() {
    #expect(
      complaints("In: 3 files\n\n1. `Door.swift`: `enter`.\n2. `Hall.swift`: `hall`.")
        == ["passes 2 files"])
  }
}

/// One way through the code, as CONTRIBUTING describes it.
struct Journey {
  let title: String
  private let fileCount: Int?
  private let stops: [Stop]

  private enum Stop {
    /// A file, and the declarations to read in it.
    case step(number: Int?, file: String, names: [String])

    /// Another process continues: the code before and after uses this word.
    case handOver(String)
  }

  /// The journeys of a section; each has a heading such as `A healthy call: 5 files`.
  static func all(in section: String) -> [Journey] {
    section.split(separator: "\n### ").dropFirst().map { Journey($0) }
  }

  private init(_ text: Substring) {
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    let heading = lines[0].split(separator: ": ")
    title = String(lines[0])
    fileCount = heading.last.flatMap { Int($0.prefix { $0.isNumber }) }
    var items: [String] = []
    for line in lines.dropFirst() where !line.isEmpty {
      if line.hasPrefix(" "), !items.isEmpty {
        items[items.count - 1] += line
      } else {
        items.append(String(line))
      }
    }
    stops = items.map { item in
      // Every other part is in backticks.
      let parts = item.split(separator: "`", omittingEmptySubsequences: false)
      let quoted = parts.indices.filter { $0 % 2 == 1 }.map { String(parts[$0]) }
      let isHandOver = item.hasPrefix("*")
      let number = item.split(separator: ".").first.flatMap { Int($0) }
      let names = quoted.dropFirst(isHandOver ? 0 : 1).filter {
        $0.allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" }
      }
      return isHandOver
        ? .handOver(names.first ?? "")
        : .step(number: number, file: quoted.first ?? "", names: Array(names))
    }
  }

  /// What is wrong with the journey; nothing if every step leads to the next.
  func complaints(reading source: (String) -> SourceText?) -> [String] {
    var complaints: [String] = []
    var files: Set<String> = []
    var used: Set<Substring> = []
    var pending: String?
    var count = 0
    var isFirst = true
    for stop in stops {
      switch stop {
      case .handOver(let word):
        if !used.contains(Substring(word)) { complaints.append("no step before uses \(word)") }
        used = []
        pending = word
        isFirst = true
      case .step(let number, let file, let names):
        count += 1
        files.insert(file)
        if number != count { complaints.append("\(count): is numbered \(number ?? 0)") }
        guard let text = source(file) else {
          complaints.append("\(count): \(file) does not exist")
          continue
        }
        if names.isEmpty { complaints.append("\(count): \(file): names nothing") }
        var unreached: [(name: String, words: Set<Substring>)] = []
        for name in names {
          if let words = text.words(in: name) {
            unreached.append((name, words))
          } else {
            complaints.append("\(count): \(file) does not declare \(name)")
          }
        }
        // A name may also be used by another one of the same step, which has been reached itself.
        while let index = unreached.firstIndex(where: {
          isFirst || used.contains(Self.word(for: $0.name, in: file))
        }) {
          used.formUnion(unreached.remove(at: index).words)
          isFirst = false
        }
        for (name, _) in unreached { complaints.append("\(count): no earlier step uses \(name)") }
        if let word = pending, used.contains(Substring(word)) { pending = nil }
      }
    }
    if let pending { complaints.append("no step after uses \(pending)") }
    if fileCount != files.count { complaints.append("passes \(files.count) files") }
    return complaints
  }

  /// What code writes that uses a declaration: for an initializer, the type, which the file is
  /// named for.
  private static func word(for name: String, in file: String) -> Substring {
    guard name == "init" else { return Substring(name) }
    return file.split(separator: "/").last?.prefix { $0.isLetter || $0.isNumber } ?? ""
  }
}

/// The text of a Swift file, laid out as `swift format` does.
struct SourceText {
  private let lines: [Substring]

  init(_ text: String) {
    lines = text.split(separator: "\n", omittingEmptySubsequences: false).map {
      $0.prefix(upTo: $0.firstRange(of: "//")?.lowerBound ?? $0.endIndex)
    }
  }

  /// The identifiers in the declarations with a name; nil if there is none.
  func words(in name: String) -> Set<Substring>? {
    let declarations = lines.indices.filter { Self.declares(name, lines[$0]) }
    if declarations.isEmpty { return nil }
    var words: Set<Substring> = []
    for index in declarations {
      let indentation = Self.indentation(of: lines[index])
      // To declare a name is not to use it.
      words.formUnion(Self.words(of: lines[index]).filter { $0 != name })
      for line in lines[(index + 1)...] {
        let text = line.drop { $0 == " " }
        let isInside = text.isEmpty || Self.indentation(of: line) > indentation
        let isSameLevel = Self.indentation(of: line) == indentation
        guard isInside || isSameLevel && ["}", ")", "]"].contains(text.first) else { break }
        words.formUnion(Self.words(of: line))
        if isSameLevel, text == "}" { break }
      }
    }
    return words
  }

  private static let keywords: Set<Substring> = [
    "func", "var", "let", "case", "struct", "class", "enum", "protocol", "actor", "typealias",
  ]

  private static func declares(_ name: String, _ line: Substring) -> Bool {
    guard line.contains(name) else { return false }
    let words = words(of: line)
    if name == "init" {
      return words.contains("init") && !line.contains(".init") && !line.contains("=")
    }
    guard let keyword = words.firstIndex(where: { keywords.contains($0) }) else { return false }
    // A line may list several cases.
    return words[keyword] == "case"
      ? words[keyword...].contains(Substring(name))
      : words.dropFirst(keyword + 1).first == Substring(name)
  }

  private static func indentation(of line: Substring) -> Int { line.prefix { $0 == " " }.count }

  private static func words(of line: Substring) -> [Substring] {
    line.split { !($0.isLetter || $0.isNumber || $0 == "_") }
  }
}
