import Glibc
import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// The output of the commands about a breaker with a limit.
struct LimitCommandTests {
  private static let words = [
    "--set", "max-concurrent=1", "--set", "lost-calls=failure", "--set", "max-failures=9",
  ]

  /// A bench on which a call of another program has all the room of the breaker `gpu`.
  private func busyBench() throws -> (bench: CommandBench, store: SharedStore, permit: SharedPermit)
  {
    let bench = CommandBench()
    _ = bench.run(["policy", "gpu"] + Self.words)
    let store = SharedStore(path: bench.path, options: bench.options)
    let permit = try store.breaker("gpu").acquire().shared()
    return (bench, store, permit)
  }

  @Test func `check says that there is no room, and run does not run its command`() throws {
    let (bench, store, permit) = try busyBench()
    let check = bench("check", "gpu")
    #expect(
      check
        == Answer(
          code: 75, output: "rejected: closed, no room: 1/1 units under way\n", errors: ""))
    let json = bench("check", "gpu", "--json").output
    #expect(
      json.hasPrefix(
        #"{"permitted":false,"state":"closed","retry_after_ms":null,"cause":"busy","open_reason":null,"hold":null,"mode""#
      ))
    let run = bench("run", "gpu", "--", "sh", "-c", "echo ran >&2; exit 3")
    #expect(run.code == 75)
    #expect(
      run.errors
        == "cbctl: gpu: rejected: as many calls are under way as its max-concurrent permits: try"
        + " again later\n")
    #expect(
      bench("run", "gpu", "--json", "--", "true")
        == Answer(
          code: 75,
          output: #"{"permitted":false,"state":"closed","retry_after_ms":null,"cause":"busy"}"#
            + "\n", errors: ""))
    #expect(bench("run", "gpu", "--fallback", "exit 7", "--", "true").code == 7)
    permit.succeed()
    #expect(bench("check", "gpu") == Answer(code: 0, output: "permitted: closed\n", errors: ""))
    #expect(bench("check", "gpu", "--json").output.contains(#""cause":null"#))
    #expect(bench("run", "gpu", "--", "true").code == 0)
    store.close()
  }

  @Test func `a busy breaker is neither failing nor open, and its page names the holders`() throws {
    let (bench, store, permit) = try busyBench()
    #expect(bench("run", "gpu", "--quiet", "--", "true").code == 75)
    let page = bench("show", "gpu").output
    #expect(page.hasPrefix("gpu: closed, no room: 1/1 units under way\n"), "\(page)")
    #expect(page.contains("  limit         1 of 1 unit under way\n"))
    #expect(page.contains("  totals        1 busy\n"))
    #expect(page.contains("\nCalls under way\n  "))
    #expect(page.contains(" (pid \(getpid())), 1 unit, for "))
    let json = bench("show", "gpu", "--json").output
    #expect(json.contains(#""calls_under_way":[{"pid":\#(getpid()),"program":""#))
    #expect(json.contains(#""callers_waiting":[]"#))
    #expect(json.contains(#""limit":{"units":1,"in_use":1,"waiting":0,"room":false,"waits":{"#))
    #expect(bench("status", "--json").output.contains(#""limit":{"units":1,"in_use":1,"#))
    let metrics = bench("metrics").output
    #expect(metrics.contains(#"shared_breaker_units_in_use{name="gpu"} 1"#))
    #expect(metrics.contains(#"shared_breaker_busy_rejections_total{name="gpu"} 1"#))
    #expect(metrics.contains(#"shared_breaker_rejections_total{name="gpu"} 0"#))
    permit.succeed()
    store.close()
  }

  @Test func `a limit without its file is not known, and never nothing`() throws {
    let (bench, store, permit) = try busyBench()
    unsafe unlink("\(bench.path)-slots")
    let status = bench("status").output
    #expect(status.contains("  ?/1      ?     -     -      -        -\n"), "\(status)")
    #expect(bench("show", "gpu").output.contains("how many are under way is not known"))
    #expect(bench("show", "gpu", "--json").output.contains(#""calls_under_way":null"#))
    #expect(!bench("metrics").output.contains("units_in_use"))
    #expect(bench("check", "gpu").code == 0)
    // Nothing of this makes a file.
    #expect(!bench.files.contains("breakers.db-slots"))
    permit.succeed()
    store.close()
  }

  @Test func `run tells a user at a terminal that it may wait`() throws {
    let (bench, store, permit) = try busyBench()
    _ = bench("policy", "gpu", "--set", "queue-timeout=1ms")
    func errors(hasTerminal: Bool) -> String {
      let recorder = Recorder()
      var console = recorder.console()
      console.hasTerminal = hasTerminal
      return bench.run(["run", "gpu", "--", "true"], on: console, recorder).errors
    }
    let rejected =
      "cbctl: gpu: rejected: as many calls are under way as its max-concurrent permits: try again"
      + " later\n"
    let told = "cbctl: gpu: no room: 1/1 units under way: may wait for its turn for up to 1ms\n"
    #expect(errors(hasTerminal: true) == told + rejected)
    #expect(errors(hasTerminal: false) == rejected)
    permit.succeed()
    #expect(errors(hasTerminal: true).isEmpty)
    store.close()
  }

  @Test func `check and wait find a breaker free that observes, because it rejects no call`() throws
  {
    let (bench, store, permit) = try busyBench()
    _ = bench("force", "gpu", "observe")
    let check = bench("check", "gpu")
    #expect(check.code == 0 && check.output.hasPrefix("permitted: observe"), "\(check)")
    #expect(!check.output.contains("no room"))
    #expect(bench("run", "gpu", "--", "true").code == 0)
    #expect(bench("wait", "gpu", "--state", "free", "--timeout", "0s").code == 0)
    permit.succeed()
    store.close()
  }

  @Test func `check says when a ramp ends that has no room`() throws {
    let bench = CommandBench()
    _ = bench("policy", "api", "--set", "ramp-up=10s")
    _ = bench("hold", "api", "--for", "1s")
    bench.advance(by: 1_000)
    #expect(bench("run", "api", "--", "true").code == 0)
    let store = SharedStore(path: bench.path, options: bench.options)
    var permits: [SharedPermit] = []
    while bench("check", "api").code == 0, permits.count < 9 {
      permits.append(try store.breaker("api").acquire().shared())
    }
    bench.advance(by: 4_000)
    let answer = bench("check", "api", "--json").output
    #expect(answer.contains(#""retry_after_ms":6000,"cause":"ramping""#), "\(answer)")
    permits.forEach { $0.succeed() }
    store.close()
  }

  /// The output of a script inside of a call of `gpu`, in which `$1 --store $2` is the program with its store.
  private func insideOfCall(_ settings: [String], _ script: String) -> String {
    let bench = CommandBench()
    let program = [Terminal.program, "--store", bench.path]
    func course(_ words: [String]) -> CommandCourse.End {
      CommandCourse.of((program + words).map { Array($0.utf8) }, timeout: .seconds(1_800)).end
    }
    #expect(
      course(["policy", "gpu", "--quiet"] + settings.flatMap { ["--set", $0] }) == .exited(0))
    let words = ["sh", "-c", "exec >\"$2.out\"; \(script)", "sh", Terminal.program, bench.path]
    _ = course(["run", "gpu", "--"] + words)
    return Golden.read(bench.path + ".out") ?? ""
  }

  @Test func `a command inside of a call of the same breaker finds it free`() {
    let output = insideOfCall(
      ["max-concurrent=1", "queue-timeout=30s"],
      #"""
      "$1" --store "$2" check gpu; "$1" --store "$2" check gpu --json
      "$1" --store "$2" wait gpu --state free --timeout 0s --quiet && echo free
      """#)
    #expect(output.hasPrefix("permitted inside of another call: closed"), "\(output)")
    #expect(
      output.contains(#"{"permitted":true,"state":"closed","retry_after_ms":null,"cause":null"#))
    #expect(output.hasSuffix("free\n"))
  }

  @Test func `a command inside of a call still has a turn of its own under a rate`() {
    let output = insideOfCall(
      ["max-concurrent=2", "rate=1/1h"], #""$1" --store "$2" check gpu --json"#)
    #expect(output.contains(#""permitted":false"#), "\(output)")
    #expect(output.contains(#""cause":"rate""#))
  }

  @Test(.timeLimit(.minutes(60)))
  func `run makes the probe although killed processes had all the room`() throws {
    let stage = try Stage()
    func run(_ words: String...) -> Answer {
      let recorder = Recorder()
      let ending = ControlKit.run(
        arguments: ["--store", stage.store] + words, console: recorder.console(),
        options: StoreOptions(clock: stage.clock.clock))
      return Answer(code: ending.code, output: recorder.output, errors: recorder.errors)
    }
    let puppets = try stage.puppets(2, "max-concurrent=2 max-failures=9")
    #expect(try puppets[0].ask("run") == "ok 42")
    for puppet in puppets { #expect(try puppet.ask("acquire") == "normal") }
    #expect(run("trip", "api", "--for", "30s").code == 0)
    stage.clock.advance(by: .seconds(30))
    for puppet in puppets { puppet.kill() }
    var answer: Answer
    repeat {
      // A caller looks for the dead at most once a millisecond.
      answer = run("run", "api", "--", "true")
    } while answer.errors.contains("max-concurrent")
    #expect(answer == Answer(code: 0, output: "", errors: ""))
    #expect(try stage.sharedStore().snapshot(of: "api")?.state == .closed)
  }

  @Test func `run says that it keeps to no limit if calls cannot be counted`() throws {
    let bench = CommandBench()
    // A file that is not regular is refused, and not replaced.
    #expect(unsafe mkdir("\(bench.path)-slots", 0o700) == 0)
    defer { unsafe rmdir("\(bench.path)-slots") }
    #expect(bench("run", "plain", "--", "true").errors.isEmpty)
    let run = bench("run", "gpu", "--max-concurrent", "1", "--", "true")
    #expect(run.code == 0)
    #expect(
      run.errors == "cbctl: the command runs without its limit: the calls under way cannot be "
        + "counted in \(bench.path)-slots: run 'cbctl doctor'\n")
    unsafe rmdir("\(bench.path)-slots")
    #expect(bench("run", "gpu", "--", "true").errors.isEmpty)
  }

  @Test(.timeLimit(.minutes(60)))
  func `wait returns when there is room, and says what there is if it takes too long`() throws {
    let (bench, store, permit) = try busyBench()
    let late = bench("wait", "gpu", "--state", "free", "--timeout", "1ms")
    #expect(late.code == 1)
    #expect(
      late.errors == "cbctl: 'gpu' is not free after 1ms: closed, no room: 1/1 units under way:"
        + " wait longer, or run 'cbctl show'\n")
    let answer = Guarded<Answer?>(nil)
    let threads = Threads()
    threads.start {
      let end = bench("wait", "gpu", "--state", "free")
      answer.withLock { $0 = end }
    }
    permit.succeed()
    threads.join()
    #expect(answer.withLock { $0 } == Answer(code: 0, output: "gpu: closed\n", errors: ""))
    _ = bench("trip", "gpu")
    #expect(bench("wait", "gpu", "--state", "free", "--timeout", "1ms").code == 1)
    store.close()
  }
}

/// Findings of `doctor` about the file of the slots.
@Suite(.timeLimit(.minutes(60))) struct LimitDoctorTests {
  private func line(_ stage: Stage) -> Substring {
    let recorder = Recorder()
    _ = ControlKit.run(
      arguments: ["--store", stage.store, "doctor"], console: recorder.console(),
      options: StoreOptions(clock: stage.clock.clock))
    return recorder.output.split(separator: "\n").first { $0.contains("  slots ") } ?? ""
  }

  @Test func `the doctor counts calls, and names a stopped process that keeps room`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(3, "max-concurrent=3 max-failures=9")
    #expect(try puppets.ask("acquire") == ["normal", "normal", "normal"])
    #expect(
      line(stage) == "ok    slots       3 calls under way, 0 callers waiting, under 1 limit")
    puppets[0].process.stop()
    #expect(
      line(stage)
        == "warn  slots       3 calls under way, 0 callers waiting, under 1 limit; process"
        + " \(puppets[0].pid) (puppet) stopped with calls under way: nobody else gets their room;"
        + " repair: none: continue what is stopped with 'kill -CONT', or end it")
    puppets[0].process.resume()
    puppets[1].kill()
    let after = line(stage)
    #expect(
      after.hasPrefix(
        "note  slots       2 calls under way, 0 callers waiting, under 1 limit; 1 left by"),
      "\(after)")
    #expect(
      after.contains("process \(puppets[1].pid): the next one who looks for room"), "\(after)")
    #expect(try puppets[0].ask("succeed") == "counted")
    #expect(try puppets[2].ask("acquire") == "normal")
  }

  @Test func `the doctor finds nothing wrong with slots without an owner`() throws {
    let clinic = try Clinic()
    #expect(
      clinic.line("slots", of: clinic.doctor()).text
        == "ok    slots       there are none: the first call under a limit creates them")
    clinic.useLimit()
    let answer = clinic.doctor()
    #expect(answer.code == 0, "\(answer)")
    #expect(
      clinic.line("slots", of: answer).text
        == "ok    slots       0 calls under way, 0 callers waiting, under 1 limit")
  }
}
