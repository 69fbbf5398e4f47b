import BreakerStore
import Glibc
import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// Commands behind a breaker that take longer than its probe timeout.
struct LongCommandTests {
  /// A breaker that is due for a probe with a short timeout, on a clock that stands still.
  private func due() -> CommandBench {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "probe-timeout=30ms", "--set", "open-for=1s")
    _ = bench("trip", "pay")
    bench.advance(by: 1_000)
    return bench
  }

  private func deadline(_ bench: CommandBench) throws -> Int64 {
    Int64(try Database.value(bench.path, "SELECT max(deadline_ns) FROM lease")) ?? 0
  }

  /// Runs a command until a file is removed, and an action beside it once the command has begun.
  private func run(
    _ bench: CommandBench, _ options: [String] = [],
    meanwhile: @escaping @Sendable () throws -> Void
  ) -> Answer {
    let sign = "\(bench.folder)/sign"
    let script = #": > "$0"; while [ -e "$0" ]; do sleep 0.01; done"#
    let words = ["run", "pay"] + options + ["--", "sh", "-c", script, sign]
    let answer = Guarded<Answer?>(nil)
    Threads.run(2) { thread in
      if thread == 0 {
        let its = bench.run(words)
        answer.withLock { $0 = its }
        return
      }
      do {
        try DirectoryWatch.wait(in: bench.folder) { Files.exists(sign) }
        try meanwhile()
      } catch {
        Issue.record(error)
      }
      Files.removeAll(sign)
    }
    return answer.withLock { $0 } ?? Answer(code: -1, output: "", errors: "")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a command that is a probe keeps its lease while it runs`() {
    let bench = due()
    let answer = run(bench) {
      for _ in 0..<20 {
        bench.advance(by: 20)
        try DirectoryWatch.wait(in: bench.folder) {
          try deadline(bench) >= bench.now + 30_000_000
        }
        let state = bench("check", "pay")
        #expect(state.code == 75)
        #expect(state.output.contains("half_open"))
      }
      let lease = try Database.rows(bench.path, "SELECT id, pid FROM lease")
      #expect(lease == [["1", "\(getpid())"]])
    }
    #expect(answer == Answer(code: 0, output: "", errors: ""))
    #expect(bench("check", "pay").output == "permitted: closed\n")
    #expect(bench("history", "pay", "--json").output.contains("the probe succeeded"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a command that loses its lease runs on, and its outcome is refused`() {
    let bench = due()
    let answer = run(bench) {
      // This is longer than any lease that could be renewed in time.
      bench.advance(by: 10_000)
      try DirectoryWatch.wait(in: bench.folder) { bench("check", "pay").code == 0 }
    }
    #expect(answer.code == 0)
    #expect(answer.errors.contains("report refused: the probe's lease has ended"))
    #expect(bench("status", "pay", "--json").output.contains(#""state":"open""#))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a command that is no probe renews nothing`() {
    let bench = CommandBench()
    _ = bench("policy", "pay", "--set", "probe-timeout=30ms")
    let answer = run(bench) {
      let before = try Database.rows(bench.path, "SELECT revision FROM breaker")
      for _ in 0..<10 {
        bench.advance(by: 20)
        usleep(10_000)
      }
      #expect(try Database.rows(bench.path, "SELECT revision FROM breaker") == before)
    }
    #expect(answer.code == 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a timeout ends a probe that would run for ten minutes`() {
    let bench = due()
    let answer = bench("run", "pay", "--timeout", "100ms", "--", "sleep", "600")
    #expect(answer.code == 124)
    #expect(
      bench("status", "pay", "--json").output.contains(#""last_error":"timed out after 100ms""#))
    #expect(bench("check", "pay").output.contains("open"))
  }

  /// Runs the real program, which cannot renew its lease while it is stopped.
  @Test(.timeLimit(.minutes(60)))
  func `a cbctl that is stopped loses the lease of its command at the deadline`() {
    let bench = CommandBench()
    let script = #"""
      program=$1 store=$2 sign=$3
      "$program" --store "$store" policy pay --set probe-timeout=1s --set open-for=10ms --quiet
      "$program" --store "$store" trip pay --quiet
      "$program" --store "$store" wait pay --state due --quiet
      setsid "$program" --store "$store" run pay -- \
        sh -c ': > "$0"; while [ -e "$0" ]; do sleep 0.01; done' "$sign" 2>"$sign.errors" &
      while [ ! -e "$sign" ]; do sleep 0.01; done
      kill -STOP $!
      # The command runs on, and the probe has failed.
      "$program" --store "$store" wait pay --state open --timeout 9m --quiet || exit 2
      "$program" --store "$store" wait pay --state due --timeout 9m --quiet || exit 3
      [ -e "$sign" ] || exit 4
      kill -CONT $!
      rm "$sign"
      wait $! || exit 5
      grep -q 'lease has ended' "$sign.errors" || exit 6
      """#
    let words = ["sh", "-c", script, "sh", Terminal.program, bench.path, "\(bench.folder)/sign"]
    let end = CommandCourse.of(
      words.map { Array($0.utf8) }, timeout: .seconds(590), restoredSignals: [SIGPIPE, SIGXFSZ]
    ).end
    #expect(end == .exited(0))
  }
}
