import Glibc
import TestSupport
import Testing

/// Commands that are killed one after the other, as cron or a time limit kills them.
@Suite struct LostCommandTests {
  @Test(.timeLimit(.minutes(60)))
  func `killed commands open the breaker though each of them finds room`() throws {
    let cbctl = try CommandLineTool()
    let words = "--max-concurrent 9 --lost-calls failure --max-failures 3"
    #expect(try cbctl("run api \(words) -- true").code == 0)
    for _ in 1...3 {
      let command = try Child(
        BuiltProducts.path(of: "cbctl"),
        ["--store", cbctl.store, "run", "api", "--", "sh", "-c", "echo begun; exec cat"])
      #expect(try command.line() == "begun")
      command.kill()
    }
    #expect(try cbctl("run api -- true").code == 75)
    let document = try cbctl("show api --json").output
    #expect(document.contains(#""state":"open""#), "\(document)")
    #expect(document.contains(#""lost_calls":3"#), "\(document)")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a TERM ends a run that waits for room, and leaves the room of a command that goes on`()
    throws
  {
    let cbctl = try CommandLineTool()
    func start(_ command: String...) throws -> Child {
      let words = ["run", "gpu", "--max-concurrent", "1", "--queue-timeout", "1h", "--"]
      return try Child(
        BuiltProducts.path(of: "cbctl"), ["--store", cbctl.store] + words + command)
    }
    func untilOneWaits() throws {
      while try !cbctl("show gpu --json").output.contains(#""waiting":1,"#) { sched_yield() }
    }
    let script = #"""
      trap 'echo told; read line; exit 0' TERM
      echo begun
      while [ -e "$0" ]; do sleep 0.01; done
      """#
    let first = try start("sh", "-c", script, cbctl.directory.path)
    #expect(try first.line() == "begun")
    let second = try start("echo", "ran")
    try untilOneWaits()
    kill(second.pid, SIGTERM)
    #expect(try second.rest().isEmpty)
    #expect(second.waitForEnd() == -SIGTERM)
    let third = try start("echo", "ran")
    try untilOneWaits()
    kill(first.pid, SIGTERM)
    #expect(try first.line() == "told")
    #expect(try cbctl("check gpu").code == 75)
    try first.send("end")
    #expect(first.waitForEnd() == 0)
    #expect(try third.line() == "ran")
    #expect(third.waitForEnd() == 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a program has no room once its command has ended or its cbctl was killed`() throws {
    let cbctl = try CommandLineTool()
    let start = "run gpu --max-concurrent 1 --"
    let daemon = try cbctl("\(start) sh -c 'sleep 600 >/dev/null 2>&1 & echo $!'").output
    let its = try #require(Int32(daemon.dropLast()))
    defer { kill(its, SIGKILL) }
    #expect(try cbctl("\(start) echo ran").output == "ran\n")
    #expect(kill(its, 0) == 0)
    let command = try Child(
      BuiltProducts.path(of: "cbctl"),
      ["--store", cbctl.store, "run", "gpu", "--", "sh", "-c", "echo $$; exec sleep 600"])
    let orphan = try #require(Int32(try command.line() ?? ""))
    defer { kill(orphan, SIGKILL) }
    #expect(try cbctl("\(start) true").code == 75)
    command.kill()
    #expect(try cbctl("\(start) true").code == 0)
    #expect(kill(orphan, 0) == 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `commands that end by themselves lose nothing`() throws {
    let cbctl = try CommandLineTool()
    let words = "--max-concurrent 9 --lost-calls failure --max-failures 1"
    for _ in 1...3 { #expect(try cbctl("run api \(words) -- true").code == 0) }
    let document = try cbctl("show api --json").output
    #expect(document.contains(#""state":"closed""#) && document.contains(#""lost_calls":0"#))
  }
}
