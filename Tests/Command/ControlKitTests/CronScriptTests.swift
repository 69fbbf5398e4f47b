import Glibc
import TestSupport
import Testing

@testable import ControlKit

/// The scripts of the guide, run as they are printed, with stand-ins for the commands in them.
struct CronScriptTests {
  private let bench = CommandBench()
  private let scripts: [String]

  init() throws {
    let root = #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    let guide = "/\(root)/Sources/Breaker/SharedBreaker/SharedBreaker.docc/SettingUp.md"
    scripts = try #require(Golden.read(guide)).split(separator: "```").map { String($0) }
      .filter { $0.hasPrefix("sh\n#!/bin/sh\n") }.map { String($0.dropFirst(3)) }
    try #require(scripts.count == 3)
  }

  /// Runs one of the scripts, with a command that prints "done" and exits with a code.
  private func run(
    _ script: Int, _ command: String, endingWith code: Int32
  ) -> (code: Int32, output: String) {
    run(scripts[script], command, endingWith: code)
  }

  private func run(
    _ script: String, _ command: String, endingWith code: Int32
  ) -> (code: Int32, output: String) {
    let folder = bench.folder
    Golden.write("#!/bin/sh\necho done\nexit \(code)\n", to: "\(folder)/command.text")
    Golden.write(script, to: "\(folder)/script.text")
    let programs = Terminal.program.split(separator: "/").dropLast().joined(separator: "/")
    // These are copies, because a child that another test has forked may still have open what this
    // process has written. No program can be run while it is open for writing.
    let status = Child.shell(
      "cd '\(folder)' && install command.text '\(command)' && install script.text script && env -i PATH='\(folder)':'/\(programs)':/usr/bin:/bin HOME='\(folder)' "
        + "ASAN_OPTIONS=\"$ASAN_OPTIONS\" SHARED_BREAKER_STORE='\(bench.path)' setsid ./script < /dev/null > output 2>&1"
    )
    return (status, Golden.read("\(folder)/output") ?? "")
  }

  private func cbctl(_ words: String...) -> Int32 {
    let recorder = Recorder()
    return ControlKit.run(
      arguments: ["--store", bench.path, "--quiet"] + words, console: recorder.console()
    ).code
  }

  @Test func `the gate script stops a job only while the breaker is open`() {
    // Nothing has used the breaker yet, and the store does not exist.
    #expect(run(0, "settle-invoices", endingWith: 0).output.hasSuffix("done\n"))
    _ = cbctl("policy", "payments", "--set", "open-for=1d")
    #expect(run(0, "settle-invoices", endingWith: 4) == (4, "done\n"))
    _ = cbctl("trip", "payments")
    #expect(run(0, "settle-invoices", endingWith: 0) == (0, ""))
  }

  @Test(arguments: ["check", "acquire"])
  func `the example in help stops a job only while the breaker is open`(
    command: String
  ) throws {
    let example = try #require(CommandSpec.named(command)?.examples.first)
    let script = "#!/bin/sh\n\(example.line)\nsettle-invoices\n"
    func run() -> String { self.run(script, "settle-invoices", endingWith: 0).output }
    #expect(run().hasSuffix("done\n"))
    _ = cbctl("policy", "payments", "--set", "open-for=1d")
    #expect(run().hasSuffix("done\n"))
    _ = cbctl("trip", "payments")
    #expect(!run().contains("done"))
    Golden.write("no store", to: "\(bench.path)-wal")
    Golden.write("no store", to: bench.path)
    #expect(run().hasSuffix("done\n"))
  }

  @Test func `the script of two steps counts how the job ended`() {
    _ = cbctl("policy", "payments", "--set", "max-failures=2", "--set", "open-for=1d")
    #expect(run(1, "charge", endingWith: 0) == (0, "done\n"))
    for _ in 0..<2 { #expect(run(1, "charge", endingWith: 3) == (3, "done\n")) }
    #expect(run(1, "charge", endingWith: 0) == (0, ""))
    #expect(bench.real("show", "payments").output.contains("charge ended with 3"))
    _ = cbctl("reset", "payments")
    #expect(run(1, "charge", endingWith: 0) == (0, "done\n"))
  }

  @Test func `the fallback script prints what the last good run printed`() {
    _ = cbctl("policy", "rates", "--set", "open-for=1d", "--set", "max-failures=1")
    #expect(run(2, "fetch-rates", endingWith: 0) == (0, "done\n"))
    #expect(run(2, "fetch-rates", endingWith: 7) == (0, "done\n"))
    #expect(cbctl("check", "rates") == 75)
    #expect(run(2, "fetch-rates", endingWith: 0) == (0, "done\n"))
  }
}

extension CommandBench {
  /// Runs a command line on the clock of the host, which the scripts use too.
  fileprivate func real(_ words: String...) -> Answer {
    let recorder = Recorder()
    let ending = ControlKit.run(
      arguments: ["--store", path] + words, console: recorder.console())
    return Answer(code: ending.code, output: recorder.output, errors: recorder.errors)
  }
}
