import Testing

@testable import ControlKit

/// The systemd units and the crontab that are installed as examples.
@Suite struct ExampleFilesTests {
  private static func commands(of file: String) throws -> [Substring] {
    let root = #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    let text = try #require(Golden.read("/\(root)/scripts/examples/\(file)"))
    return text.split(separator: "\n").filter { !$0.hasPrefix("#") }.compactMap { line in
      line.firstRange(of: #/(?:ExecStart=|\* root )cbctl /#).map { line[$0.upperBound...] }
    }
  }

  @Test(arguments: [
    ("cbctl-metrics.service", 1), ("mirror-archive.service", 1), ("shared-breaker.cron", 3),
  ])
  func `the examples for systemd and cron have lines that cbctl understands`(
    file: String, count: Int
  ) throws {
    let commands = try Self.commands(of: file)
    #expect(commands.count == count)
    for command in commands {
      // Each line is made of plain words, up to its end or to the `||` of a shell.
      #expect(!command.contains { "'\"\\".contains($0) })
      let words = command.split(separator: " ").prefix { $0 != "||" }
      #expect(throws: Never.self, "\(command)") {
        guard case .command = try ArgumentParser.parse(words.map { Array($0.utf8) }) else {
          throw ControlError(.usage, "no command", "help or version", "")
        }
      }
    }
  }

  /// The recipes for jobs that a timer starts, with the minutes between two runs.
  private static let recipes = [
    ("scripts/examples/mirror-archive.service", 30), ("scripts/examples/shared-breaker.cron", 30),
    ("Sources/Breaker/SharedBreaker/SharedBreaker.docc/SettingUp.md", 10),
    ("Tests/Command/ControlKitTests/Snapshots/help-run.txt", 10),
  ]

  @Test(arguments: recipes)
  func `the recipe of a job skips most runs while its resource is down all day`(
    file: String, minutes: Int
  ) throws {
    let root = #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    let text = try #require(Golden.read("/\(root)/\(file)"))
    let lines = text.split(separator: "\n").filter {
      $0.contains(#/(=|\* (root )?|^  )cbctl run .*--preset scheduled-job/#)
    }
    try #require(lines.count == 1, "\(lines)")
    let words = lines[0].split(separator: " ").drop { !$0.hasSuffix("cbctl") }.dropFirst()
      .prefix { $0 != "--" }
    let bench = CommandBench()
    var runs = 0
    for _ in 0..<(24 * 60 / minutes) {
      let answer = bench.run(words.map { String($0) } + ["--", "false"])
      if answer.code == 1 { runs += 1 } else { #expect(answer.code == 75) }
      bench.advance(by: Int64(minutes) * 60_000)
    }
    // The job still finds out within hours that the resource is back.
    #expect((3...(24 * 60 / minutes / 2)).contains(runs), "\(runs) runs")
  }
}
