import BreakerCore
import SharedBreaker
import Testing

@testable import ControlKit

/// The words about a mode: its author and reason, its beginning and its end.
@Suite struct ModeTimeTests {
  /// A breaker that has been closed for an hour, with a mode that was set ten minutes ago.
  private func bench(_ options: String...) -> CommandBench {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "probes=2")
    bench.advance(by: 3_600_000)
    _ = bench.run(["force", "pay", "forced_open", "--reason", "disks"] + options)
    bench.advance(by: 600_000)
    return bench
  }

  private func onTerminal(_ bench: CommandBench, _ words: String...) -> String {
    let recorder = Recorder()
    return bench.run(words + ["--no-color"], on: recorder.console(width: 120), recorder).output
  }

  @Test func `the age of a forced breaker is that of its mode`() {
    let rows = onTerminal(bench(), "status").split(separator: "\n")
    let cells = rows[1].split(separator: " ")
    #expect(cells.prefix(5) == ["pay", "closed", "forced_open", "10m", "15:13:20Z"][...])
  }

  @Test func `the status on a terminal gives the author, the reason and the end of a mode`() {
    let ending = onTerminal(bench("--for", "2h"), "status").split(separator: "\n")
    let author = #/cbctl \(pid \d+\)/#
    #expect(
      ending.last?.replacing(author, with: "AUTHOR")
        == "pay: forced_open for 1h 50m, set 10m ago by AUTHOR: disks")
    let bench = bench()
    #expect(onTerminal(bench, "status").contains("pay: forced_open without an end, set 10m ago"))
    for number in 1...6 { _ = bench("force", "more-\(number)", "observe") }
    let many = onTerminal(bench, "status").split(separator: "\n")
    #expect(many.suffix(6).dropLast().allSatisfy { $0.contains(" without an end, set ") })
    #expect(many.last == "2 more have a mode: 'cbctl show NAME' says who set it")
    #expect(!onTerminal(bench, "status", "--quiet").contains("without an end"))
  }

  @Test func `the lines about modes match the guide`() {
    let lines = ModeLines.text(of: Samples.all, at: Samples.time, width: 80)
    Golden.expect(lines.map { $0 + "\n" }.joined(), "status-modes.txt")
    #expect(
      ModeLines.text(of: Samples.all, at: Samples.time, width: 36).first
        == "maintenance: forced_open for 2h, se…")
  }

  @Test func `a breaker that holds calls has a line too, which a narrow terminal shows`() {
    func held(_ name: String) -> BreakerSnapshot {
      Samples.breaker(name, madeSecondsAgo: 10) { record in
        var hold = Hold(
          until: Samples.now.boot.advanced(by: 125_000_000_000), lengthNanoseconds: 130_000_000_000,
          setAtMilliseconds: Samples.now.wallMilliseconds - 5_000)
        (hold.reason, hold.setBy) = ("HTTP 429", "sync (pid 7)")
        record.holds.hold = hold
      }
    }
    #expect(
      ModeLines.text(of: [held("llm")], at: Samples.time, width: 80)
        == ["llm: held for 2m 5s (HTTP 429), told by sync (pid 7)"])
    #expect(
      ModeLines.text(of: [held("llm")], at: Samples.time, width: 36)
        == ["llm: held for 2m 5s (HTTP 429), tol…"])
    let many = ModeLines.text(of: (1...7).map { held("llm-\($0)") }, at: Samples.time, width: 80)
    #expect(many.last == "2 more are held: 'cbctl show NAME' says why")
  }

  @Test func `a forced breaker shows since when and until when its mode holds`() {
    let endless = bench()("show", "pay").output
    #expect(endless.contains("  mode since    2026-09-21T15:13:20.000Z (10m ago)\n"), "\(endless)")
    #expect(endless.contains("  mode until    somebody removes it\n"))
    let ending = bench("--for", "2h")("show", "pay").output
    #expect(ending.contains("  mode until    2026-09-21T17:13:20.000Z (in 1h 50m)\n"), "\(ending)")
    let page = bench("--for", "2h")("page").output
    #expect(page.contains("<dt>mode since</dt>") && page.contains("<dt>mode until</dt>"))
  }

  @Test func `the documents say when a mode was set`() {
    let bench = bench()
    for words in [["status", "--json"], ["show", "pay", "--json"], ["check", "pay", "--json"]] {
      let document = bench.run(words).output
      #expect(document.contains(#""mode_set_at":"2026-09-21T15:13:20.000Z""#), "\(words)")
    }
    _ = bench("force", "pay", "automatic")
    #expect(bench("status", "--json").output.contains(#""mode_set_at":null"#))
  }
}
