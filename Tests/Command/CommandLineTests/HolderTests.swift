import TestSupport
import Testing

/// The holders of room under a limit, as `show` names them.
struct HolderTests {
  @Test(.timeLimit(.minutes(60)))
  func `show names the command of a run without its arguments, and says that it is stopped`() throws
  {
    let cbctl = try CommandLineTool()
    let run = try Child(
      BuiltProducts.path(of: "cbctl"),
      [
        "--store", cbctl.store, "run", "gpu", "--max-concurrent", "1", "--", "/bin/sh", "-c",
        "echo begun; read secret",
      ])
    #expect(try run.line() == "begun")
    let running = try cbctl("show gpu").output
    #expect(running.contains("\n  sh, via cbctl (pid \(run.pid)), 1 unit, for "), "\(running)")
    #expect(!running.contains("secret") && !running.contains("stopped"), "\(running)")
    run.stop()
    let stopped = try cbctl("show gpu").output
    #expect(stopped.contains(/\n  sh, via cbctl \(pid \d+\), 1 unit, for [^,]+, stopped\n/))
    let json = try cbctl("show gpu --json").output
    #expect(json.contains(#""program":"cbctl","command":"sh","stopped":true,"units":1,"#))
    run.resume()
    try run.send("")
    #expect(run.waitForEnd() == 0)
  }
}
