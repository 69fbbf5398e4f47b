import BreakerCore
import SharedBreaker
import TestSupport
import Testing

@testable import BreakerStore
@testable import ControlKit

/// Statements of the guides, checked against the code.
@Suite struct GuideTests {
  private static func text(_ path: String) throws -> String {
    let root = #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    return try #require(Golden.read("/\(root)/\(path)"))
  }

  private static func guide(_ name: String) throws -> String {
    try text("Sources/Breaker/SharedBreaker/SharedBreaker.docc/\(name).md")
  }

  private static func guides() throws -> [String] {
    let root = #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    let folder = "Sources/Breaker/SharedBreaker/SharedBreaker.docc"
    let names = Files.names(in: "/\(root)/\(folder)").filter { $0.hasSuffix(".md") }
    return try names.map { try text("\(folder)/\($0)") } + [text("README.md")]
  }

  @Test func `the newest version in the changelog is the one that cbctl prints`() throws {
    let versions = try Self.text("CHANGELOG.md").matches(of: /\n## ([0-9.]+)/).map { $0.1 }
    #expect(versions.first.map { String($0) } == ControlKit.version)
  }

  @Test(arguments: [
    "status.json", "show.json", "limit.json", "history.json", "watch.json", "export.ndjson",
    "fleet.json",
  ])
  func `the guide names every field of a JSON document`(document: String) throws {
    let guide = try Self.guide("JSONAndExitCodes")
    let text = try Self.text("Tests/Command/ControlKitTests/Snapshots/\(document)")
    let fields = Set(text.matches(of: /"([a-z_-]+)":/).map { String($0.1) })
    #expect(fields.count > 5)
    for field in fields {
      #expect(guide.contains("`\(field)`") || guide.contains("\"\(field)\""), "\(field)")
    }
  }

  @Test(arguments: [
    "status-terminal.txt", "status-modes.txt", "timeline-guide.txt", "watch-pipe.txt", "fleet.txt",
  ])
  func `the guide to operations shows what is printed`(output: String) throws {
    let guide = try Self.guide("Operations")
    let text = try Self.text("Tests/Command/ControlKitTests/Snapshots/\(output)")
    for line in text.split(separator: "\n") { #expect(guide.contains(line + "\n"), "\(line)") }
  }

  @Test func `the guide to limits shows what is printed`() throws {
    let blocks = try Self.guide("SharingALimit").split(separator: "```")
      .filter { $0.hasPrefix("\n$ cbctl ") }
    #expect(blocks.count == 2)
    let printed = try ["status-limits.txt", "show-limit.txt"].map {
      try Self.text("Tests/Command/ControlKitTests/Snapshots/\($0)")
    }.joined()
    for line in blocks.joined().split(separator: "\n") where !line.hasPrefix("$") && line != "..." {
      #expect(printed.contains(line + "\n"), "\(line)")
    }
  }

  @Test func `the README shows what status prints`() throws {
    let bench = CommandBench()
    var options = bench.options
    (options.program, options.user) = ("cbctl", "deploy")
    let store = SharedStore(path: bench.path, options: options)
    let policy = BreakerPolicy(maxFailures: 3)
    for name in ["rates", "search"] { try store.breaker(name, policy: policy).run {} }
    try store.breaker("mirror").force(.forcedOpen, for: .seconds(7_200), reason: "new disks")
    bench.advance(by: 540_000)
    let payments = try store.breaker("payments", policy: policy)
    for _ in 0..<3 { try payments.acquire().fail(error: "HTTP 503") }
    bench.advance(by: 18_000)
    store.close()
    let recorder = Recorder()
    let answer = bench.run(["status", "--no-color"], on: recorder.console(width: 80), recorder)
    #expect(answer.code == 0)
    let readme = try Self.text("README.md")
    #expect(readme.contains("```\n$ cbctl status\n\(answer.output)```\n"), "\(answer.output)")
  }

  @Test(arguments: ["SettingUp", "Monitoring"])
  func `every crontab in the guides sets a path for cron`(name: String) throws {
    let tables = try Self.guide(name).split(separator: "```").filter { $0.contains(" * * * ") }
    #expect(!tables.isEmpty)
    for table in tables { #expect(table.contains("\nPATH=/usr/local/"), "\(table)") }
  }

  @Test func `the commands that the guides name with arguments are accepted`() throws {
    var played = 0
    for guide in try Self.guides() {
      // A command without arguments, or with no more than an option, only names what is meant.
      for span in guide.matches(of: /`cbctl ([a-z]+ [^-|`][^|`]*)`/).map({ String($0.1) })
      where !span.hasSuffix(" --set") {
        #expect(throws: Never.self, "cbctl \(span)") {
          try ArgumentParser.parse(span.split(separator: " ").map { Array($0.utf8) })
        }
        played += 1
      }
    }
    #expect(played > 10)
  }

  @Test func `the guide names every key of a policy`() throws {
    let guide = try Self.guide("JSONAndExitCodes")
    for key in PolicyKey.allCases { #expect(guide.contains("`\(key.rawValue)`"), "\(key)") }
  }

  @Test func `the guide names every kind of event`() throws {
    let guide = try Self.guide("JSONAndExitCodes")
    for kind in BreakerChange.Kind.allCases {
      #expect(guide.contains("`\(kind.wireName)`"), "\(kind)")
    }
  }

  @Test func `an enum of the public API may grow, or the guide says that it is complete`() throws {
    let guide = try Self.guide("Compatibility")
    let api = try Self.text("Tests/Breaker/API/SharedBreaker.txt")
    let enums = api.matches(of: #/\nenum ([\w.]+)/#).map { String($0.1) }
      .filter { api.contains("\n\($0): case ") }
    #expect(!enums.isEmpty)
    for name in enums {
      #expect(guide.contains("``\(name.replacing(".", with: "/"))``"), "\(name)")
    }
  }

  @Test func `the guide names every exit code`() throws {
    let guide = try Self.guide("JSONAndExitCodes")
    for code in ExitCode.allCases { #expect(guide.contains("\n| \(code.rawValue) | "), "\(code)") }
  }

  @Test func `the guides name every check of the doctor and every result`() throws {
    let json = try Self.guide("JSONAndExitCodes")
    let files = try Self.guide("StoreFiles")
    for check in StoreCheck.allCases {
      #expect(json.contains("`\(check.rawValue)`"), "\(check)")
      #expect(files.contains("`\(check.rawValue)`"), "\(check)")
    }
    for result in StoreFinding.Result.allCases {
      #expect(json.contains("`\(result.rawValue)`"), "\(result)")
    }
  }

  @Test func `the guide to limits says how much is kept`() throws {
    let guide = try Self.guide("Limits")
    let bytesOfBreaker =
      CounterFile.bytesOfCounters + CounterFile.bytesOfMarks + CounterFile.bytesOfAttempts
    for words in [
      "1 to \(OutsideText.longestName) bytes", "\(OutsideText.longestError / 1_024) KiB is kept",
      "latest \(EventTable.eventsOfOneBreaker) entries",
      "and \(EventTable.policyEventsOfOneBreaker) changes of its policy",
      "up to \(EventTable.eventsBetweenTrims - 1) more of each",
      "latest \(RecordedEvent.mostOfAll / 1_000),000 entries",
      "the \(BreakerTable.declarations) that were declared last", "\(bytesOfBreaker) bytes each",
      "from \(LogLength.limitInBytes / 1_024_000),000 KiB on",
      "| \(StoreRoom.usualBreakers / 1_000),000, unless a program sets",
    ] {
      #expect(guide.contains(words), "\(words)")
    }
  }

  @Test(arguments: [
    (PolicyKey.maxFailures, 1_000_000, "1,000,000"), (.minCalls, 1_000_000, "1,000,000"),
    (.successesToClose, 1_000_000, "1,000,000"), (.probeCalls, 1_000_000, "1,000,000"),
    (.failures, 1_000, "1,000"), (.last, 10_000, "10,000"), (.reporters, 64, "64"),
    (.probes, 1_000, "1,000"), (.maxConcurrent, 1_024, "1,024"), (.queue, 1_024, "1,024"),
  ])
  func `the guide to limits gives the range of each count of a policy`(
    key: PolicyKey, most: Int, words: String
  ) throws {
    let rows = try Self.guide("Limits").split(separator: "\n")
    #expect(rows.contains { $0.contains("`\(key.rawValue)`") && $0.hasSuffix("| 1 | \(words) |") })
    #expect(try complaint(about: key, 1) == nil)
    #expect(try complaint(about: key, most) == nil)
    #expect(try complaint(about: key, 0) != nil)
    #expect(try complaint(about: key, most + 1) != nil)
  }

  /// Why a policy with this count is refused, with the other keys that the count needs.
  private func complaint(about key: PolicyKey, _ count: Int) throws -> PolicyError? {
    var policy = BreakerPolicy(failureRate: 0.5, window: .seconds(60))
    if key == .last { policy.window = nil }
    if key == .failures { policy.within = .seconds(60) }
    if key == .probeCalls { policy.probeFailureRate = 0.5 }
    if key == .queue { (policy.maxConcurrent, policy.queueTimeout) = (1, .seconds(1)) }
    try policy.set(key, to: "\(count)")
    do throws(PolicyError) { try policy.validate() } catch { return error }
    return nil
  }
}
