import BreakerCore
import Testing

@testable import ControlKit
@testable import SharedBreaker

/// Which entries of a history have one row together.
@Suite struct HistoryFoldTests {
  private static func entry(
    _ id: Int64, _ name: String = "pay", _ from: String, _ to: String,
    _ kind: BreakerChange.Kind = .transition, user: String? = nil
  ) -> HistoryEntry {
    HistoryEntry(
      RecordedEvent(
        id: id, atMilliseconds: 1_790_000_000_000 + id * 60_000, name: name,
        change: BreakerChange(kind: kind.rawValue, from: from, to: to), reason: nil, pid: 1,
        program: "worker", mandate: .init(user: user, command: nil)), isAfterGap: false)
  }

  /// So many outages, each with a failed probe, beginning with an id.
  private static func outages(_ count: Int64, from id: Int64 = 1, of name: String = "pay")
    -> [HistoryEntry]
  {
    (0..<count).flatMap { outage in
      let id = id + outage * 5
      return [
        entry(id, name, "closed", "open"), entry(id + 1, name, "open", "half_open"),
        entry(id + 2, name, "half_open", "open"), entry(id + 3, name, "open", "half_open"),
        entry(id + 4, name, "half_open", "closed"),
      ]
    }
  }

  /// The rows in brief: the ids of entries, and the words of folded ones.
  private static func rows(_ entries: [HistoryEntry]) -> [String] {
    HistoryRow.folded(entries).map {
      switch $0 {
      case .entry(let entry): "\(entry.id)"
      case .cycles(let cycles): "\(cycles.first.id)-\(cycles.last.id): \(cycles.words)"
      }
    }
  }

  @Test func `a short outage keeps all its entries`() {
    #expect(Self.rows(Self.outages(1)) == ["1", "2", "3", "4", "5"])
    #expect(Self.rows([]).isEmpty)
  }

  @Test func `a repeated change has one row between its first and its last entry`() {
    let entries = Self.outages(40)
    #expect(Self.rows(entries) == ["1", "2-199: 39 outages, 40 failed probes", "200"])
    #expect(HistoryRow.folded(entries).map(\.count) == [1, 198, 1])
  }

  @Test func `each act of a person keeps a row of its own`() {
    let person = Self.entry(100, "pay", "closed", "open", user: "deploy")
    let mode = Self.entry(101, "pay", "automatic", "observe", .mode)
    let entries = Self.outages(2) + [person, mode] + Self.outages(2, from: 200)
    #expect(
      Self.rows(entries) == [
        "1", "2-9: 1 outage, 2 failed probes", "10", "100", "101", "200",
        "201-208: 1 outage, 2 failed probes", "209",
      ])
  }

  @Test func `breakers whose entries take turns are kept apart`() {
    let (one, other) = (Self.outages(3), Self.outages(3, from: 100, of: "mail"))
    let entries = zip(one, other).flatMap { [$0, $1] }
    #expect(
      Self.rows(entries) == [
        "1", "100", "2-14: 2 outages, 3 failed probes", "101-113: 2 outages, 3 failed probes", "15",
        "114",
      ])
  }

  @Test func `changes that began no outage are only counted`() {
    let entries = (1...8).map { id in
      id % 2 == 1
        ? Self.entry(id, "pay", "closed", "half_open", .suspicion)
        : Self.entry(id, "pay", "half_open", "closed", .suspicion)
    }
    #expect(Self.rows(entries) == ["1", "2-7: 6 changes of the state", "8"])
  }

  @Test func `a terminal gets the rows, unless it asks for all; a pipe gets every entry`() {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "open-for=1s", "--set", "max-failures=1")
    for _ in 1...4 {
      _ = bench("run", "pay", "--", "false")
      bench.advance(by: 1_000)
      _ = bench("run", "pay", "--", "true")
    }
    func onTerminal(_ words: String...) -> [String] {
      let recorder = Recorder()
      return bench.run(words + ["--no-color"], on: recorder.console(width: 200), recorder).output
        .split(separator: "\n").map { String($0) }
    }
    let lines = onTerminal("history", "pay")
    #expect(lines.count == 4)
    #expect(
      lines[2].contains("  repeated    3 outages  ") && lines[2].contains("  until 14:"),
      "\(lines[2])")
    #expect(onTerminal("history", "pay", "--all").count == 13)
    #expect(bench("history", "pay").output.split(separator: "\n").count == 13)
    #expect(bench("history", "pay", "--json").output.split(separator: "\n").count == 13)
    #expect(bench("show", "pay").output.contains("repeated    3 outages"))
  }
}
