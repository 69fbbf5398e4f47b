import Glibc
import TestSupport
import Testing

@testable import ControlKit

/// The real program and the signals that it is sent.
struct SignalTests {
  /// Runs a script with the program as `$1`, a store as `$2` and a file for signalling as `$3`.
  private func run(_ script: String) -> CommandCourse.End {
    let bench = CommandBench()
    let words = ["sh", "-c", script, "sh", Terminal.program, bench.path, "\(bench.folder)/sign"]
    return CommandCourse.of(
      words.map { Array($0.utf8) }, timeout: .seconds(1_800), restoredSignals: [SIGPIPE, SIGXFSZ]
    ).end
  }

  private static let stopped = """
    "$1" --store "$2" policy pay --set max-failures=1 --quiet
    "$1" --store "$2" run pay -- sh -c "$SCRIPT" "$3" &
    while [ ! -e "$3" ]; do sleep 0.01; done
    kill -"${SIGNAL:-TERM}" $!
    wait $!
    [ $? = "$CODE" ] && "$1" --store "$2" check pay --quiet
    """

  @Test func `a TERM reaches the command, whose code is passed on but counts as ignored`() {
    let script = #"trap "exit 9" TERM; : > "$0"; while :; do sleep 0.01; done"#
    #expect(run("SCRIPT='\(script)'; CODE=9\n" + Self.stopped) == .exited(0))
  }

  @Test func `a command killed by a TERM that was passed on counts as ignored`() {
    let script = #": > "$0"; while :; do sleep 0.01; done"#
    #expect(run("SCRIPT='\(script)'; CODE=143\n" + Self.stopped) == .exited(0))
  }

  @Test(arguments: [SIGALRM, SIGXCPU, SIGVTALRM, SIGPROF])
  func `a timer signal to cbctl ends the command too, which counts as ignored`(signal: Int32) {
    let script = #": > "$0"; while [ -e "$0" ]; do sleep 0.01; done"#
    let setting = "SCRIPT='\(script)'; CODE=\(128 + signal); SIGNAL=\(signal)\n"
    let recorded = #" && "$1" --store "$2" status pay --json | grep -q '"ignored":1'"#
    #expect(run(setting + Self.stopped + recorded) == .exited(0))
  }

  @Test func `without a terminal, TERM also reaches what the command has started`() {
    let script = #"""
      setsid "$1" --store "$2" run pay -- sh -c 'sleep 60 & echo $! > "$0"; wait' "$3" &
      while [ ! -s "$3" ]; do sleep 0.01; done
      kill -TERM $!
      wait $!
      [ $? = 143 ] || exit 1
      grandchild=$(cat "$3")
      while [ -e "/proc/$grandchild" ] && ! grep -q "^State:.Z" "/proc/$grandchild/status"; do
        sleep 0.01
      done
      """#
    #expect(run(script) == .exited(0))
  }

  @Test func `a shell sees the signal that the command died of, and no core is left`() {
    let script = #"""
      cd "${2%/*}" && ulimit -c unlimited
      "$1" --store "$2" run pay -- sh -c 'ulimit -c 0; kill -SEGV $$'
      [ $? = 139 ] || exit 1
      for file in core*; do [ ! -e "$file" ] || exit 2; done
      """#
    #expect(run(script) == .exited(0))
    let bench = CommandBench()
    let words = [Terminal.program, "--store", bench.path, "run", "pay", "--"]
    for (command, end) in [
      ("kill -INT $$", CommandCourse.End.killed(signal: SIGINT)), ("exit 130", .exited(130)),
    ] {
      let course = CommandCourse.of(
        (words + ["sh", "-c", command]).map { Array($0.utf8) }, timeout: .seconds(1_800))
      #expect(course.end == end)
    }
  }

  @Test func `an interrupt from the keyboard ends the loop around the command`() throws {
    let bench = CommandBench()
    let loop = #"while :; do "$1" --store "$2" run pay -- sleep 60; echo again; done"#
    let terminal = try Terminal(["bash", "-c", loop, "bash", Terminal.program, bench.path])
    try terminal.waitForCommand("sleep")
    terminal.type("\u{3}")
    #expect(terminal.waitForEnd() == .killed(signal: SIGINT))
  }

  @Test func `a terminal that hangs up ends the command`() throws {
    let bench = CommandBench()
    let terminal = try Terminal(
      [Terminal.program, "--store", bench.path, "run", "pay", "--", "sleep", "60"])
    try terminal.waitForCommand("sleep")
    terminal.hangUp()
    #expect(terminal.waitForEnd() == .killed(signal: SIGHUP))
  }

  @Test func `the command dies of a closed pipe and cbctl does not`() {
    let script = #"""
      "$1" --store "$2" run pay -- sh -c 'kill -PIPE $$; exit 0'
      [ $? = 141 ] || exit 1
      { "$1" --store "$2" help; echo $? > "$3"; } | :
      while [ ! -s "$3" ]; do sleep 0.01; done
      [ "$(cat "$3")" = 0 ]
      """#
    #expect(run(script) == .exited(0))
  }

  @Test(.disabled(if: Memory.isWatched, "ThreadSanitizer has larger files of its own"))
  func `a file size limit too small for the store affects the command alone`() {
    let script = #"""
      ulimit -f 8
      [ "$("$1" --store "$2" run pay -- echo job 2> "$3")" = job ] || exit 1
      "$1" --store "$2" run pay -- sh -c 'kill -XFSZ $$; exit 0' 2> "$3"
      [ $? = 153 ]
      """#
    #expect(run(script) == .exited(0))
  }

  @Test func `arguments that are not UTF-8 reach the command unchanged`() {
    let script = #"""
      word=$(printf 'a\377b')
      out=$("$1" --store "$2" run pay -- printf %s "$word")
      [ "$out" = "$word" ] && ! "$1" show "$word" 2> "$3"
      """#
    #expect(run(script) == .exited(0))
  }

  @Test func `a command that ends before its signal is passed on still counts as stopped`() {
    let script = #"""
      state() { cut -d' ' -f3 "/proc/$1/stat"; }
      "$1" --store "$2" policy pay --set max-failures=1 --quiet
      setsid "$1" --store "$2" run pay -- sh -c 'echo $$ > "$0"; exec sleep 60' "$3" &
      while [ ! -s "$3" ]; do sleep 0.01; done
      child=$(cat "$3")
      kill -STOP $!
      until [ "$(state $!)" = T ]; do sleep 0.01; done
      kill -TERM "$child"
      until [ "$(state "$child")" = Z ]; do sleep 0.01; done
      kill -TERM $!
      kill -CONT $!
      wait $!
      [ $? = 143 ] && "$1" --store "$2" status pay --json | grep -q '"failures":0,"ignored":1'
      """#
    #expect(run(script) == .exited(0))
  }

  @Test func `a run that is stopped after a timeout begins no attempt and no fallback`() {
    // A command whose timeout comes before its trap is set dies, and is tried again.
    let script = #"""
      export FALLBACK="$3.fallback"
      "$1" --store "$2" run pay --max-failures 1000000 --timeout 200ms --retries 1000000 \
        --retry-delay 0s --fallback ': > "$FALLBACK"' --quiet -- sh -c '
          leave() { [ "$told" ] && exit 9; told=1; : > "$0"; }
          [ -e "$0" ] && { : > "$0.again"; exit 0; }
          trap leave TERM
          while :; do sleep 0.01; done' "$3" &
      while [ ! -e "$3" ]; do sleep 0.01; done
      kill -TERM $!
      wait $!
      [ $? = 124 ] && [ ! -e "$3.again" ] && [ ! -e "$3.fallback" ]
      """#
    #expect(run(script) == .exited(0))
  }

  @Test func `the signals USR1 and USR2 are passed on and change nothing else`() {
    let script = #"""
      "$1" --store "$2" run pay -- sh -c '
        trap "echo one >> $0.heard" USR1; trap "echo two >> $0.heard; exit 0" USR2
        : > "$0"; while :; do sleep 0.01; done' "$3" &
      while [ ! -e "$3" ]; do sleep 0.01; done
      kill -USR1 $!
      while [ ! -s "$3.heard" ]; do sleep 0.01; done
      kill -USR2 $!
      wait $! && [ "$(tail -n 1 "$3.heard")" = two ] &&
        "$1" --store "$2" status pay --json | grep -q '"successes":1'
      """#
    #expect(run(script) == .exited(0))
  }

  @Test(arguments: [SIGIO, SIGPWR, SIGSTKFLT, 34, 64])
  func `a signal that would have ended cbctl reaches the command instead`(signal: Int32) {
    let script = #"""
      "$1" --store "$2" run pay -- sh -c '
        trap "exit 0" "$1"; : > "$0"; while [ -e "$0" ]; do sleep 0.01; done; exit 1' "$3" "$SIGNAL" &
      while [ ! -e "$3" ]; do sleep 0.01; done
      kill -"$SIGNAL" $!
      wait $! && "$1" --store "$2" status pay --json | grep -q '"successes":1'
      """#
    #expect(run("SIGNAL=\(signal)\n" + script) == .exited(0))
  }

  @Test func `without a terminal, a stop and a continuation reach the command`() {
    let script = #"""
      state() { cut -d' ' -f3 "/proc/$1/stat"; }
      setsid "$1" --store "$2" run pay -- sh -c 'echo $$ > "$0"; exec sleep 60' "$3" &
      while [ ! -s "$3" ]; do sleep 0.01; done
      child=$(cat "$3")
      kill -TSTP $!
      until [ "$(state $!)$(state "$child")" = TT ]; do sleep 0.01; done
      kill -CONT $!
      until [ "$(state "$child")" = S ]; do sleep 0.01; done
      kill -TERM $!
      wait $!
      [ $? = 143 ]
      """#
    #expect(run(script) == .exited(0))
  }

  @Test func `a suspended command still handles the signal at its timeout`() {
    let script = "trap 'exit 9' TERM; kill -STOP $$; while :; do sleep 0.01; done"
    func run() -> CommandCourse {
      CommandCourse.of(["sh", "-c", script].map { Array($0.utf8) }, timeout: .milliseconds(300))
    }
    var course = run()
    // A command whose timeout comes before its trap is set dies.
    while course.end == .killed(signal: SIGTERM) { course = run() }
    #expect(course.end == .exited(9))
    #expect(course.overrun != nil)
  }

  @Test func `a probe whose run is killed frees its slot at once`() {
    let script = #"""
      "$1" --store "$2" policy pay --set open-for=1ms --set probe-timeout=1d --quiet
      "$1" --store "$2" trip pay --quiet
      while "$1" --store "$2" status pay --json | grep -q '"probe_due":false'; do :; done
      "$1" --store "$2" run pay -- sh -c 'echo $$ > "$0"; exec sleep 60' "$3" &
      while [ ! -s "$3" ]; do sleep 0.01; done
      # It outlives its run, and would keep a reader of the tests' output waiting.
      trap 'kill "$(cat "$3")"' EXIT
      "$1" --store "$2" run pay --quiet -- true
      [ $? = 75 ] || exit 1
      kill -KILL $!
      wait $!
      "$1" --store "$2" run pay -- true && "$1" --store "$2" check pay --quiet
      """#
    #expect(run(script) == .exited(0))
  }

  @Test func `a parent that ignores its children does not hide the exit code`() {
    let script = #"""
      env --ignore-signal=CHLD "$1" --store "$2" run pay -- sh -c 'exit 7'
      [ $? = 7 ]
      """#
    #expect(run(script) == .exited(0))
  }

  @Test func `several runs at once count together`() {
    let script = #"""
      "$1" --store "$2" policy pay --set max-failures=8 --quiet
      for i in 1 2 3 4 5 6 7 8; do
        "$1" --store "$2" run pay -- false &
      done
      wait
      "$1" --store "$2" status pay --json > "$3"
      grep -q '"failures":8' "$3" && grep -q '"state":"open"' "$3" && grep -q '"trips":1' "$3"
      """#
    #expect(run(script) == .exited(0))
  }

  @Test func `the command has the streams of its caller and no others`() {
    let script = #"""
      out=$(printf abc | "$1" --store "$2" run pay -- cat)
      [ "$out" = abc ] || exit 1
      exec 7> "$3"
      "$1" --store "$2" run pay -- sh -c 'echo out; echo err >&2; echo seven >&7' > "$3.1" 2> "$3.2"
      [ "$(cat "$3" "$3.1" "$3.2")" = "$(printf 'seven\nout\nerr')" ] || exit 2
      bare=$(ls /proc/self/fd) && [ "$("$1" --store "$2" run pay -- ls /proc/self/fd)" = "$bare" ]
      """#
    #expect(run(script) == .exited(0))
  }
}
