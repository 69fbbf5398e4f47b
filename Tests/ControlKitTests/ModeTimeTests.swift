import Testing

@testable import ControlKit

/// What is said about a mode: who has set it, why, since when and until when.
@Suite struct ModeTimeTests {
  /// A breaker that has been closed for an hour, with a mode that was set ten minutes ago.
  private func bench(_ options: String...) -> Bench {
    let bench = Bench()
    _ = bench("policy", "pay", "--set", "probes=2")
    bench.advance(by: 3_600_000)
    _ = bench.run(["force", "pay", "forced_open", "--reason", "disks"] + options)
    bench.advance(by: 600_000)
    return bench
  }

  private func onTerminal(_ bench: Bench, _ words: String...) -> String {
    let recorder = Recorder()
    return bench.run(words + ["--no-color"], on: recorder.console(width: 120), recorder).output
  }

  @Test func `the age of a forced breaker is that of its mode`() {
    let rows = onTerminal(bench(), "status").split(separator: "\n")
    let cells = rows[1].split(separator: " ")
    #expect(cells.prefix(5) == ["pay", "closed", "forced_open", "10m", "15:13:20Z"][...])
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
