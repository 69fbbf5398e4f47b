import Glibc
import TestSupport
import Testing

@testable import ControlKit

/// The real shells, in which the test types the beginning of a line, a tab and return.
struct ShellCompletionTests {
  private static let names = [
    "pay", "my breaker", "it's $HOME", "a:b:c", "x=y", "qu\"ote", "back\\slash", "ünï", "semi;co*",
    "(par)", "d\u{600};id", "e\u{600}`id`", "g>\u{301}h", "l'\u{301}m", "n:\u{301}o", "r!c",
    "--store",
  ]

  /// Lines that are typed before the tab, and the words that the shell makes of them.
  private static let lines: [(typed: String, words: [String])] = [
    ("show pay", ["show", "pay"]),
    ("show my", ["show", "my breaker"]),
    ("show 'my", ["show", "my breaker"]),
    ("show \"my", ["show", "my breaker"]),
    ("show it", ["show", "it's $HOME"]),
    ("show \"it", ["show", "it's $HOME"]),
    ("show a:b", ["show", "a:b:c"]),
    ("show x=", ["show", "x=y"]),
    ("show qu", ["show", "qu\"ote"]),
    ("show ba", ["show", "back\\slash"]),
    ("show ün", ["show", "ünï"]),
    ("show sem", ["show", "semi;co*"]),
    ("show \\(p", ["show", "(par)"]),
    ("show d", ["show", "d\u{600};id"]),
    ("show \"e", ["show", "e\u{600}`id`"]),
    ("show g", ["show", "g>\u{301}h"]),
    ("show 'l", ["show", "l'\u{301}m"]),
    ("show n", ["show", "n:\u{301}o"]),
    ("show n:", ["show", "n:\u{301}o"]),
    ("show r", ["show", "r!c"]),
    ("show \"r", ["show", "r!c"]),
    ("stat", ["status"]),
    ("help exit-", ["help", "exit-codes"]),
    ("policy pay --unset open-f", ["policy", "pay", "--unset", "open-for"]),
    ("policy pay --set=open-m", ["policy", "pay", "--set=open-m"]),
    ("run pay --on-store-failure=pe", ["run", "pay", "--on-store-failure=permit"]),
    ("show nobody", ["show", "nobody"]),
    ("--store breakers.d", ["--store", "breakers.db"]),
    ("run pay -- ./tru", ["run", "pay", "--", "./true-or-false"]),
    ("--store nowhere show p", ["--store", "nowhere", "show", "p"]),
  ]

  private static func preparation(_ shell: CompletionScript) -> String {
    let check = #"check() { printf '%s\n' "$@" > out.new; mv out.new out; }"#
    return switch shell {
    case .bash:
      "\(check); source <(cbctl completion bash); complete -F _cbctl check"
    case .zsh:
      "\(check); autoload -U compinit; compinit -u -D; source <(cbctl completion zsh); "
        + "compdef _cbctl check"
    case .fish:
      "function check; printf '%s\\n' $argv > out.new; mv out.new out; end; "
        + "cbctl completion fish | source; complete -c check -w cbctl"
    }
  }

  private static let programs: [CompletionScript: [String]] = [
    .bash: ["bash", "--norc", "--noprofile", "-i"], .zsh: ["zsh", "-f", "-i"],
    .fish: ["fish", "--no-config", "-i"],
  ]

  @Test(.timeLimit(.minutes(60)), arguments: CompletionScript.allCases)
  func `a shell completes what was typed, whatever characters the names have`(
    shell: CompletionScript
  ) throws {
    let bench = CommandBench()
    for name in Self.names.dropLast() { _ = bench("acquire", name) }
    _ = bench("policy", "--set", "probes=2", "--", "--store")
    Files.make("\(bench.folder)/true-or-false")
    let folder = Terminal.program.split(separator: "/").dropLast().joined(separator: "/")
    let terminal = try Terminal(
      [
        "env", "-C", bench.folder, "PATH=/\(folder):/usr/bin:/bin", "HOME=\(bench.folder)",
        "XDG_DATA_HOME=\(bench.folder)/.data", "XDG_CONFIG_HOME=\(bench.folder)/.config",
        "SHARED_BREAKER_STORE=\(bench.path)", "TERM=dumb", "INPUTRC=/dev/null", "LC_ALL=C.UTF-8",
      ] + (Self.programs[shell] ?? []))
    terminal.type("\(Self.preparation(shell)); : > ready\r")
    try terminal.waitUntil { bench.files.contains("ready") }
    for (typed, words) in Self.lines {
      terminal.type("check \(typed)\t\r")
      try terminal.waitUntil { bench.files.contains("out") }
      let out = Golden.read("\(bench.folder)/out") ?? ""
      unsafe unlink("\(bench.folder)/out")
      // Two keys begin with open-m, so shells differ in how far they complete it.
      let seen = out.split(separator: "\n").map { String($0) }
      #expect(
        seen == words || (seen.last?.hasPrefix("--set=open-m") == true), "\(shell): \(typed)")
    }
    terminal.type("exit\r")
    _ = terminal.waitForEnd()
    terminal.hangUp()
    Files.remove("\(bench.folder)/.data")
    Files.remove("\(bench.folder)/.config")
  }
}

private enum Files {
  static func make(_ path: String) {
    let descriptor = unsafe open(path, O_CREAT | O_WRONLY, 0o755)
    if descriptor >= 0 { close(descriptor) }
  }

  static func remove(_ path: String) { Child.shell("rm -rf '\(path)'") }
}
