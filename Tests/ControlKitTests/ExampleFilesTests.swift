import Testing

@testable import ControlKit

/// The systemd units and the crontab that are installed as examples.
@Suite struct ExampleFilesTests {
  private static func commands(of file: String) throws -> [Substring] {
    let root = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
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
}
