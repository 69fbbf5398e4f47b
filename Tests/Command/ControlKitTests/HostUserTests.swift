import ControlKit
import ProgramKit
import Testing

/// The user whom the history names.
@Suite struct HostUserTests {
  private func words(_ user: UInt32, login: UInt32? = nil, claim: String? = nil) -> String {
    let names: [UInt32: String] = [0: "root", 1_000: "deploy", 33: "www-data"]
    return HostUser(number: user, login: login, claim: claim, name: { names[$0] }).words
  }

  @Test func `a user is named by the real user of the process`() {
    #expect(words(1_000) == "deploy")
    #expect(words(1_000, login: 1_000) == "deploy")
    #expect(words(4_711) == "4711")
  }

  @Test func `the user who has logged in or called sudo is named too`() {
    #expect(words(0, login: 1_000) == "root (login deploy)")
    #expect(words(33, login: 4_711) == "www-data (login 4711)")
    // The kernel knows better than the environment.
    #expect(words(0, login: 1_000, claim: "alice") == "root (login deploy)")
    #expect(words(0, login: 0, claim: "alice") == "root")
    #expect(words(0, claim: "deploy") == "root (SUDO_USER deploy)")
    #expect(words(0, claim: #"CORP\alice"#) == #"root (SUDO_USER CORP\alice)"#)
    #expect(words(0, claim: "alice), via cbctl: all is well (") == "root")
    #expect(words(1_000, claim: "") == "deploy")
    #expect(words(1_000, claim: "deploy") == "deploy")
  }

  @Test func `a command that changes a breaker is recorded with its user`() {
    let bench = CommandBench()
    func run(_ words: String...) -> Answer {
      let recorder = Recorder()
      var console = recorder.console()
      console.user = { "deploy" }
      return bench.run(words, on: console, recorder)
    }
    #expect(run("run", "pay", "--max-failures", "1", "--", "/bin/false", "secret").code == 1)
    #expect(run("reset", "pay").code == 0)
    #expect(run("force", "pay", "forced_open", "--reason", "disks").code == 0)
    let lines = run("history", "pay").output.split(separator: "\n").map { String($0) }
    #expect(lines.contains { $0.hasSuffix("  false, by deploy, via cbctl: 1 consecutive failure") })
    #expect(
      lines.contains { $0.contains("  reset ") && $0.hasSuffix("  deploy, via cbctl") }, "\(lines)")
    #expect(lines.last?.hasSuffix("  deploy, via cbctl: disks") == true, "\(lines)")
    #expect(!lines.joined().contains("secret"))
    let document = run("history", "pay", "--json").output
    #expect(document.contains(#""program":"cbctl","user":"deploy","command":"false"}"#))
    #expect(document.contains(#""program":"cbctl","user":"deploy","command":null}"#))
    #expect(run("show", "pay").output.contains("  mode set by   deploy, via cbctl\n"))
    #expect(run("page").output.contains("<bdi>false, by deploy, via cbctl</bdi>"))
  }

  @Test func `a command that only reads does not look up its user`() {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "probes=2")
    for words in [["status"], ["show", "pay"], ["check", "pay"], ["history"], ["export"]] {
      let recorder = Recorder()
      var console = recorder.console()
      console.user = {
        Issue.record("\(words) has looked up its user")
        return nil
      }
      #expect(bench.run(words, on: console, recorder).code == 0)
    }
  }
}
