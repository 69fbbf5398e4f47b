import Glibc
import TestSupport
import Testing

@testable import ControlKit

/// `cbctl` as the first process of a PID namespace, as in a container that runs nothing else.
///
/// The kernel gives every orphan to that process, and drops each signal to it that it does not
/// handle.
@Suite(.enabled(if: canBeFirst, "needs a user who may make a PID namespace"))
struct FirstProcessTests {
  private let bench = CommandBench()

  /// Runs lines of bash in which `first` is `cbctl` as a first process.
  ///
  /// `$script` is a file with the lines of `script`, and nothing exists yet at the path `$sign`.
  private func bash(_ lines: String, script: String = "") -> CommandCourse.End {
    let file = "\(bench.folder)/script"
    Golden.write(script, to: file)
    let setting = """
      export script='\(file)' sign='\(bench.folder)/sign'
      first() { exec \(unshare) '\(Terminal.program)' --store '\(bench.path)' "$@"; }
      wait_for() { until "$@" >/dev/null 2>&1; do sleep 0.01; done; }

      """
    let words = ["bash", "-c", setting + lines].map { Array($0.utf8) }
    // Only so that nothing outlives a test that hangs: on a busy host each of the many sleeps takes its time.
    return CommandCourse.of(words, timeout: .seconds(1_800)).end
  }

  @Test(.timeLimit(.minutes(60)))
  func `as the first process, run reaps the orphans of its command while that runs`() {
    let script = #"""
      for i in 1 2 3 4 5; do
        (sh -c 'echo $$ > "$0"' "$sign.$i" &)
      done
      for i in 1 2 3 4 5; do
        until [ -s "$sign.$i" ]; do sleep 0.01; done
        while [ -e "/proc/$(cat "$sign.$i")" ]; do sleep 0.01; done
      done
      exit 7
      """#
    #expect(bash(#"first run x -- sh "$script""#, script: script) == .exited(7))
  }

  @Test(.timeLimit(.minutes(60)))
  func `as the first process, run reaps orphans between two attempts too`() {
    let script = #"""
      (sh -c 'echo $$ > "$sign.orphan"; until [ -e "$sign.pause" ]; do sleep 0.01; done' &)
      (sh -c 'until [ -s "$sign.orphan" ]; do sleep 0.01; done
        while [ -e "/proc/$(cat "$sign.orphan")" ]; do sleep 0.01; done; : > "$sign.reaped"' &)
      exit 1
      """#
    let lines = #"""
      (first run x --retries 1 --retry-delay 1h -- sh "$script" 2> "$sign") &
      wait_for grep "retrying in" "$sign"
      : > "$sign.pause"
      wait_for [ -e "$sign.reaped" ]
      kill -KILL $!
      """#
    #expect(bash(lines, script: script) == .exited(0))
  }

  @Test(
    .timeLimit(.minutes(60)),
    arguments: [
      ("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("kill -TERM $$", 143),
    ] as [(String, Int32)])
  func `as the first process, run ends as its command did`(script: String, code: Int32) {
    #expect(bash(#"first run x -- sh "$script""#, script: script) == .exited(code))
    let counted = code == 0 ? #""successes":1,"failures":0"# : #""successes":0,"failures":1"#
    #expect(bench("status", "x", "--json").output.contains(counted))
  }

  @Test(.timeLimit(.minutes(60)), arguments: ["TERM", "INT", "HUP", "USR1", "RTMIN"])
  func `as the first process, run passes a signal on to its command`(signal: String) {
    let script = #"trap "exit 9" "$SIGNAL"; : > "$sign"; while :; do sleep 0.01; done"#
    let lines = #"""
      export SIGNAL=\#(signal)
      (first run x -- bash "$script") &
      wait_for [ -e "$sign" ]
      first=$(pgrep -P $!)
      # A bash that waits for sleep may miss the first one.
      while kill -"$SIGNAL" "$first" 2>/dev/null; do
        for _ in {1..100}; do [ -e "/proc/$first" ] || break; sleep 0.01; done
      done
      wait $!
      """#
    #expect(bash(lines, script: script) == .exited(9))
  }

  @Test(.timeLimit(.minutes(60)))
  func `as the first process, run can be told to stop between two attempts`() {
    let lines = #"""
      (first run x --retries 1 --retry-delay 1h -- false 2> "$sign") &
      wait_for grep "retrying in" "$sign"
      kill -TERM "$(pgrep -P $!)"
      wait $!
      """#
    #expect(bash(lines) == .exited(143))
  }

  @Test(.timeLimit(.minutes(60)), arguments: ["watch", "history --follow", "wait x --state open"])
  func `as the first process, a command that waits can be told to stop`(command: String) {
    _ = bench("policy", "x", "--set", "probes=2")
    // A signal that comes too early is dropped, so the test sends it until the process ends.
    let lines = #"""
      (first \#(command) > "$sign") &
      wait_for pgrep -P $!
      first=$(pgrep -P $!)
      while kill -TERM "$first" 2>/dev/null; do sleep 0.01; done
      wait $!
      """#
    #expect(bash(lines) == .exited(143))
  }
}

/// The command that starts a PID namespace, which ends together with the shell of the test.
private let unshare =
  "setpriv --pdeathsig KILL unshare --pid --fork --mount-proc --kill-child"

private let canBeFirst = (try? Child.run("/bin/sh", ["-c", "\(unshare) true 2>&1"])) != nil
