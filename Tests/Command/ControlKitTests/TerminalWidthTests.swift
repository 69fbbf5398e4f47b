@_spi(Command) import SharedBreaker
import Testing

@testable import ControlKit

/// The output of commands on a terminal of 80 columns.
@Suite struct TerminalWidthTests {
  private static let longName = "payments-of-the-region-whose-nightly-settlement-calls-the-bank"
  private static let reason =
    "the database moves to another host, and nobody may call it before every table has arrived"

  private static let commands = [
    ["status"], ["show", "pay"], ["show", longName], ["history"], ["history", "pay"], ["doctor"],
    ["doctor", "--repair"],
  ]

  /// A store with long names, reasons, errors and policies.
  private func bench() -> CommandBench {
    let bench = CommandBench()
    for failures in ["2", "3"] {
      _ = bench(
        "run", "pay", "--max-failures", failures, "--failure-rate", "50%", "--window", "10m",
        "--slow-rate", "50%", "--slow-after", "2s", "--", "false")
    }
    for name in ["pay", Self.longName] {
      _ = bench("force", name, "forced_open", "--for", "2h", "--reason", Self.reason)
      _ = bench("trip", name, "--reason", Self.reason)
      _ = bench("policy", name, "--set", "open-for=90s", "--set", "open-max=1h")
      _ = bench("policy", name, "--set", "max-concurrent=40", "--set", "queue-timeout=10m")
    }
    return bench
  }

  private func lines(of words: [String], _ bench: CommandBench, width: Int) -> [String] {
    let recorder = Recorder()
    let answer = bench.run(words + ["--no-color"], on: recorder.console(width: width), recorder)
    return answer.output.split(separator: "\n").map { String($0) }
  }

  @Test(arguments: commands)
  func `no command prints a line that a terminal of 80 columns would break`(words: [String]) {
    let lines = lines(of: words, bench(), width: 80)
    #expect(lines.count > 2)
    for line in lines { #expect(TextWidth.of(line) <= 80, "\(line)") }
  }

  @Test(arguments: [36, 37, 40, 47, 52, 64, 79, 81, 100, 132, 160, 199, 200])
  func `no command prints a line that a narrow or a wide terminal would break`(width: Int) {
    let bench = bench()
    for _ in 1...Flapping.outages {
      for command in ["trip", "reset"] { _ = bench(command, "shaky-\(Self.longName)") }
    }
    let commands =
      Self.commands + [["history", "--all"], ["status", "--mode", "set"], ["policy", "pay"]]
    for words in commands {
      for line in lines(of: words, bench, width: width) {
        #expect(TextWidth.of(line) <= width, "\(words): \(line)")
      }
    }
  }

  @Test(arguments: [36, 50, 63, 64, 79, 200])
  func `help fits a narrow terminal, except for lines to copy`(width: Int) {
    let bench = CommandBench()
    let examples = Set(CommandSpec.all.flatMap(\.examples).map { "  \($0.line)" })
    let pages =
      [["help"], ["--help"], ["status", "--help"]]
      + (CommandSpec.all.map(\.name) + HelpTopic.all.map(\.name)).map { ["help", $0] }
    for words in pages {
      for line in lines(of: words, bench, width: width) where !examples.contains(line) {
        #expect(TextWidth.of(line) <= min(width, 80), "\(words): \(line)")
      }
    }
  }

  @Test(arguments: [["show", "pay"], ["show", longName], ["history"], ["history", "pay"]])
  func `a terminal of 80 columns gets every word of a wide one in one piece`(words: [String]) {
    let bench = bench()
    let (narrow, wide) = (lines(of: words, bench, width: 80), lines(of: words, bench, width: 4_000))
    #expect(narrow.count > wide.count)
    #expect(self.words(of: narrow) == self.words(of: wide))
  }

  @Test func `doctor breaks its lines only between words`() throws {
    let bench = bench()
    let findings = try SharedStore(path: bench.path, options: bench.options).examine()
    let plain = Painter(isOn: false)
    for finding in findings {
      let (narrow, wide) = (
        finding.line(width: 80, painter: plain), finding.line(width: nil, painter: plain)
      )
      #expect(self.words(of: [narrow]) == self.words(of: [wide]))
    }
  }

  /// The words of lines, without the chart of the last day, which has as many characters as fit.
  private func words(of lines: [String]) -> [Substring] {
    let start = lines.firstIndex(of: "Last day") ?? lines.endIndex
    let end = lines.firstIndex(of: "Policy") ?? lines.endIndex
    return (lines[..<start] + lines[end...]).flatMap { $0.split { " \n".contains($0) } }
  }
}
