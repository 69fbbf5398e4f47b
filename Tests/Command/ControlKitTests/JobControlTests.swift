import Glibc
import Testing

@testable import ControlKit

/// The real program under a shell with job control, on a terminal of its own.
struct JobControlTests {
  private let bench = CommandBench()

  private func shell(_ script: String) throws -> Terminal {
    let run = "run() { '\(Terminal.program)' --store '\(bench.path)' run \"$@\"; }"
    let preparation = "set -m; cd '\(bench.folder)'; \(run)\n"
    return try Terminal(["bash", "-c", preparation + script])
  }

  /// Waits until a file in the folder of the shell ends with a whole line, and answers its text.
  private func wait(for file: String, in terminal: Terminal) throws -> String? {
    let path = "\(bench.folder)/\(file)"
    try terminal.waitUntil { Golden.read(path)?.hasSuffix("\n") == true }
    return Golden.read(path)
  }

  @Test func `a command is suspended and brought back with its input`() throws {
    let terminal = try shell(
      """
      run pay -- sh -c ': > begun; read line; echo "$line" > heard'
      echo $? > suspended
      fg > /dev/null
      echo $? > ended
      """)
    try terminal.waitUntil { bench.files.contains("begun") }
    terminal.type("\u{1A}")
    #expect(try wait(for: "suspended", in: terminal) == "\(128 + SIGTSTP)\n")
    #expect(!bench.files.contains("heard"))
    terminal.type("hello\n")
    #expect(try wait(for: "ended", in: terminal) == "0\n")
    #expect(try wait(for: "heard", in: terminal) == "hello\n")
    #expect(terminal.waitForEnd() == .exited(0))
  }

  @Test func `a command in the background that reads waits for its turn`() throws {
    let terminal = try shell(
      """
      run pay -- sh -c 'read line; echo "$line" > heard' &
      until jobs -s | grep -q .; do sleep 0.01; done
      echo yes > waits
      fg > /dev/null
      echo $? > ended
      """)
    #expect(try wait(for: "waits", in: terminal) == "yes\n")
    terminal.type("hello\n")
    #expect(try wait(for: "ended", in: terminal) == "0\n")
    #expect(try wait(for: "heard", in: terminal) == "hello\n")
    #expect(terminal.waitForEnd() == .exited(0))
  }

  @Test func `an interrupt ends all of the job and is no failure`() throws {
    let terminal = try shell(
      """
      run pay --max-failures 1 --retries 3 -- sh -c '(sleep 60; true); true'
      echo more > ended
      """)
    // A shell that is about to start its last command would lose the interrupt.
    try terminal.waitForCommand("sleep")
    terminal.type("\u{3}")
    #expect(terminal.waitForEnd() == .exited(128 + SIGINT))
    try terminal.waitUntil { terminal.programs().isEmpty }
    #expect(!bench.files.contains("ended"))
    #expect(bench("check", "pay").output == "permitted: closed\n")
  }

  @Test func `an interrupt from the keyboard reaches the command once`() throws {
    let script = """
      cd '\(bench.folder)'; trap 'echo int >> keys' INT; trap 'exit 9' TERM
      echo $PPID > parent; while :; do sleep 0.01; done
      """
    let terminal = try Terminal(
      [Terminal.program, "--store", bench.path, "run", "pay", "--", "sh", "-c", script])
    let parent = try #require(
      try wait(for: "parent", in: terminal).flatMap { Int32($0.dropLast()) })
    // The command handles the key while the parent is stopped: two pending signals would merge.
    kill(parent, SIGSTOP)
    try terminal.waitUntil { Golden.read("/proc/\(parent)/stat")?.contains(") T ") == true }
    terminal.type("\u{3}")
    _ = try wait(for: "keys", in: terminal)
    kill(parent, SIGCONT)
    kill(parent, SIGTERM)
    #expect(terminal.waitForEnd() == .exited(9))
    #expect(Golden.read("\(bench.folder)/keys") == "int\n")
  }

  @Test func `a pipe between commands stays one job`() throws {
    let terminal = try shell(
      """
      run a -- sh -c 'while :; do echo y; sleep 0.01; done' | run b -- sh -c 'head -n 3; cat' > out
      """)
    try terminal.waitUntil { Golden.read("\(bench.folder)/out")?.hasPrefix("y\ny\ny\n") == true }
    terminal.type("\u{3}")
    #expect(terminal.waitForEnd() == .exited(128 + SIGINT))
    try terminal.waitUntil { terminal.programs().isEmpty }
  }
}
