import Glibc
import TestSupport
import Testing

@testable import ControlKit

/// `cbctl watch` on a terminal of its own.
@Suite struct LiveViewTests {
  private static let enter = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l"
  private static let leave = "\u{1b}[0m\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l"

  /// A view of a store, in a shell that prints how it ended and keeps the terminal.
  private final class View {
    let bench = CommandBench()
    let terminal: Terminal

    init(_ names: [String] = ["pay"]) throws {
      for name in names { _ = bench("policy", name, "--set", "open-for=1h") }
      let script = #"""
        sh -c 'echo $$ > "$3"; exec "$1" --store "$2" watch --no-color' sh "$1" "$2" "$3"
        echo "code $?"
        read -r line
        """#
      terminal = try Terminal([
        "env", "TERM=xterm", "SWIFT_BACKTRACE=enable=no", "sh", "-c", script, "sh",
        Terminal.program, bench.path, "\(bench.folder)/pid",
      ])
      terminal.resize(columns: 80, lines: 24)
    }

    func see(_ text: String) throws { try terminal.waitForOutput(text) }

    func kill(_ signal: Int32) throws {
      let text = try #require(Golden.read("\(bench.folder)/pid"))
      let pid = try #require(pid_t(text.filter(\.isNumber)))
      Glibc.kill(pid, signal)
    }

    /// Checks that the view ends with a code and leaves the terminal as it was before.
    func end(_ code: Int32) throws {
      try see(leave)
      try see("code \(code)")
      #expect(terminal.isUsual)
      terminal.type("\n")
      _ = terminal.waitForEnd()
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `the live view shows what another process does and ends with q`() throws {
    let view = try View()
    try view.see(Self.enter)
    try view.see("1 breaker: 1 closed")
    try view.see("pay   closed")
    #expect(!view.terminal.isUsual)
    _ = view.bench("trip", "pay", "--reason", "as a test")
    try view.see("pay   open")
    try view.see("pay: closed -> open: as a test")
    view.terminal.type("q")
    try view.end(0)
  }

  @Test(
    .disabled(if: Memory.isWatched, "a sanitizer does as it likes with signals"),
    .timeLimit(.minutes(60)),
    arguments: [
      SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGUSR1, SIGUSR2,
      SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU, SIGIO, SIGPWR, SIGSTKFLT, SIGSYS, 34, 64,
    ])
  func `the live view restores the terminal whatever signal ends it`(signal: Int32) throws {
    let view = try View()
    try view.see("pay   closed")
    #expect(!view.terminal.isUsual)
    try view.kill(signal)
    try view.end(128 + signal)
  }

  @Test(.timeLimit(.minutes(60)))
  func `the live view ends at an interrupt from the keyboard`() throws {
    let view = try View()
    try view.see("pay   closed")
    view.terminal.type("\u{3}")
    // The key also ends the shell around the view.
    try view.see(Self.leave)
    #expect(view.terminal.isUsual)
  }

  @Test(.timeLimit(.minutes(60)))
  func `the live view fills a terminal of another size`() throws {
    let view = try View()
    try view.see("pay   closed")
    view.terminal.resize(columns: 160, lines: 24)
    try view.see("SINCE")
    view.terminal.resize(columns: 80, lines: 4)
    try view.see("\u{1b}[1;1H\u{1b}[KNAME")
    view.terminal.type("q")
    try view.end(0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `the live view scrolls to breakers that have no room`() throws {
    let view = try View((10..<60).map { "n\($0)" })
    try view.see("1-17 of 50")
    view.terminal.type("G")
    try view.see("34-50 of 50")
    view.terminal.type("\u{1b}[A")
    try view.see("33-49 of 50")
    view.terminal.type("g")
    try view.see("1-17 of 50")
    view.terminal.type("q")
    try view.end(0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `the live view releases the terminal when it is stopped and takes it again`() throws {
    let view = try View()
    try view.see("pay   closed")
    view.terminal.type("\u{1a}")
    try view.see(Self.leave)
    // The view's process group is orphaned, so the kernel does not stop it.
    try view.see(Self.enter)
    try view.see("pay   closed")
    view.terminal.type("q")
    try view.end(0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `the live view takes the terminal once when a shell brings it back`() throws {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "open-for=1h")
    let script = #"set -m; "$1" --store "$2" watch --no-color; fg"#
    let terminal = try Terminal([
      "env", "TERM=xterm", "bash", "-c", script, "bash", Terminal.program, bench.path,
    ])
    try terminal.waitForOutput("pay   closed")
    terminal.type("\u{1a}")
    try terminal.waitForOutput(Self.leave)
    try terminal.waitForOutput(Self.enter)
    terminal.type("q")
    #expect(try !terminal.waitForOutput(Self.leave).contains(Self.enter))
    #expect(terminal.waitForEnd() == .exited(0))
  }
}
