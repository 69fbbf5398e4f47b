import Glibc
import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// Real commands, and how their ends are judged.
struct CommandCourseTests {
  private func course(_ words: String..., timeout: Duration? = nil) -> CommandCourse {
    CommandCourse.of(words.map { Array($0.utf8) }, timeout: timeout, restoredSignals: [])
  }

  @Test(
    arguments: [
      ("exit 0", .exited(0)), ("exit 7", .exited(7)), ("exit 255", .exited(255)),
      ("kill -9 $$", .killed(signal: 9)), ("kill -TERM $$", .killed(signal: 15)),
    ] as [(String, CommandCourse.End)])
  func `the end of a command is reported as an exit code or a signal`(
    script: String, ending: CommandCourse.End
  ) {
    #expect(course("sh", "-c", script).end == ending)
  }

  @Test func `many commands at a time each report their own exit code`() async {
    await withTaskGroup(of: Bool.self) { group in
      for code in Int32(0)..<16 {
        group.addTask { self.course("sh", "-c", "exit \(code)").end == .exited(code) }
      }
      for await isRight in group { #expect(isRight) }
    }
  }

  @Test(
    arguments: [
      ("/nonexistent/program", 127), ("no-such-program-anywhere", 127), ("/etc/passwd", 126),
      ("/", 126), ("/etc/passwd/x", 127), ("", 127),
    ] as [(String, Int32)])
  func `a command that cannot be run counts as ignored`(program: String, code: Int32) {
    let judgement = course(program).judged(ignoring: [], permanent: [])
    #expect(judgement.ending == .code(code))
    #expect(judgement.outcome == .ignored)
    #expect(judgement.complaint?.contains("cannot be run") == true)
  }

  @Test func `a script that names no interpreter is run by the shell`() {
    let bench = CommandBench()
    let path = "\(bench.folder)/-script"
    Golden.write("[ \"$1\" = 'a b' ] && [ \"$0\" -ef '\(path)' ] && exit 7", to: path)
    unsafe chmod(path, 0o755)
    #expect(course(path, "a b").end == .exited(7))
    // It is found by PATH, whose empty entry is the working directory.
    let words = ["env", "-C", bench.folder, "PATH=:/nowhere", Terminal.program, "--store"]
    for line in [["-script"], ["./-script"]] {
      let last = ["\(bench.path)", "run", "x", "--"] + line + ["a b"]
      #expect(
        CommandCourse.of((words + last).map { Array($0.utf8) }, timeout: nil).end == .exited(7))
    }
  }

  @Test func `a program for another kind of machine is not run as a script`() throws {
    let bench = CommandBench()
    let path = "\(bench.folder)/program"
    try Files.write(path, Array("\u{7f}ELF\u{0}exit 7\n".utf8))
    try Files.changeMode(path, to: 0o755)
    var end = course(path).end
    // A child that another test starts has the file open for writing until it becomes its program.
    while end == .notStarted(ETXTBSY) { end = course(path).end }
    #expect(end == .notStarted(ENOEXEC))
  }

  @Test func `a command that takes too long is told to end`() {
    let course = course("sleep", "3600", timeout: .milliseconds(50))
    #expect(course.overrun == .milliseconds(50))
    #expect(course.end == .killed(signal: SIGTERM))
    #expect(course.elapsed >= .milliseconds(50))
    #expect(course.elapsed < .seconds(1_800))
    let judgement = course.judged(ignoring: [], permanent: [])
    #expect(judgement.ending == .code(124))
    #expect(judgement.outcome == .failure(error: "timed out after 50ms"))
  }

  @Test func `a timeout also ends a process that the command leaves behind`() {
    let bench = CommandBench()
    let stubborn = "trap '' TERM; : > \(bench.path); while :; do sleep 0.01; done"
    let wait = "while [ ! -e \(bench.path) ]; do sleep 0.01; done"
    let script = "(\(stubborn)) & \(wait); echo $! > \(bench.path).pid; sleep 60; exit 0"
    var (pid, timeout): (Int32, Duration) = (0, .seconds(1))
    // A busy machine needs longer to get so far.
    while pid == 0, timeout < .seconds(600) {
      let course = course("sh", "-c", script, timeout: timeout)
      #expect(course.end == .killed(signal: SIGTERM))
      pid = Golden.read("\(bench.path).pid").flatMap { Int32($0.dropLast()) } ?? 0
      timeout *= 2
    }
    #expect(pid > 0)
    // It is not a child of this process, so init or a subreaper reaps it at some time.
    while isRunning(pid) { usleep(10_000) }
  }

  private func isRunning(_ pid: Int32) -> Bool {
    guard kill(pid, 0) == 0 else { return false }
    return Golden.read("/proc/\(pid)/stat")?.contains(") Z ") == false
  }

  @Test func `a timeout counts even if the command then ends with 0`() {
    let script = "trap 'exit 0' TERM; while :; do sleep 0.01; done"
    let course = course("sh", "-c", script, timeout: .milliseconds(200))
    #expect(course.end == .exited(0))
    #expect(course.judged(ignoring: [0], permanent: []).ending == .code(124))
  }

  @Test func `a command that was told to stop earlier has not timed out`() throws {
    let bench = CommandBench()
    // The command exits at its second TERM, which comes at its timeout.
    let trap = "trap '[ $told ] && exit 9; told=1' TERM"
    let script = "\(trap); : > \(bench.path); while :; do sleep 0.01; done"
    let relay = SignalRelay(hasOwnGroup: true)
    defer { relay.end() }
    let pid = try ChildProcess.spawn(
      ["sh", "-c", script].map { Array($0.utf8) }, inOwnGroup: true, restoredSignals: [])
    try DirectoryWatch.wait(in: bench.folder) { Files.exists(bench.path) }
    // The signal is pending before the timeout begins.
    pthread_kill(pthread_self(), SIGTERM)
    let result = relay.wait(for: pid, timeout: .milliseconds(50))
    #expect(result.wasStopped)
    #expect(!result.didTimeOut)
  }

  @Test func `a signal that comes after the end of a command waits until its relay ends`() {
    let relay = SignalRelay(hasOwnGroup: true)
    defer { relay.end() }
    let course = CommandCourse.of([Array("true".utf8)], timeout: nil, under: relay)
    #expect(course.end == .exited(0) && !course.wasStopped)
    // Otherwise it would end this process, before the outcome is reported.
    pthread_kill(pthread_self(), SIGTERM)
    var terminations = sigset_t()
    unsafe sigemptyset(&terminations)
    unsafe sigaddset(&terminations, SIGTERM)
    var now = timespec()
    #expect(unsafe sigtimedwait(&terminations, nil, &now) == SIGTERM)
  }

  @Test func `one signal relay leaves the child signal of another pending`() {
    let relay = SignalRelay(hasOwnGroup: true)
    defer { relay.end() }
    pthread_kill(pthread_self(), SIGCHLD)
    SignalRelay(hasOwnGroup: true).end()
    var pending = sigset_t()
    unsafe sigpending(&pending)
    #expect(unsafe sigismember(&pending, SIGCHLD) == 1)
  }

  @Test func `a command that ends in time keeps its exit code`() {
    let course = course("sh", "-c", "exit 3", timeout: .seconds(60))
    #expect(course.overrun == nil)
    #expect(course.end == .exited(3))
  }

  @Test func `a command starts with no signal blocked`() {
    let script = "grep -q '^SigBlk:.*0000000000000000$' /proc/self/status"
    #expect(course("sh", "-c", script).end == .exited(0))
  }

  @Test(
    arguments: [
      (.exited(0), false, .success, .code(0)),
      (.exited(1), false, .failure(error: "exit code 1"), .code(1)),
      (.exited(2), false, .ignored, .code(2)),
      (.exited(3), false, .permanentFailure(error: "exit code 3"), .code(3)),
      (.killed(signal: 9), false, .failure(error: "killed by signal 9"), .signal(9)),
      (.killed(signal: 15), true, .ignored, .signal(15)),
      (.exited(1), true, .ignored, .code(1)),
      (.exited(0), true, .success, .code(0)),
    ] as [(CommandCourse.End, Bool, CallOutcome, Ending)])
  func `the end of a command is judged by its exit code`(
    end: CommandCourse.End, wasStopped: Bool, outcome: CallOutcome, ending: Ending
  ) {
    let course = CommandCourse(program: "x", end: end, elapsed: .zero, wasStopped: wasStopped)
    let judgement = course.judged(ignoring: [2], permanent: [3])
    #expect(
      judgement == CommandJudgement(outcome: outcome, ending: ending, isLast: wasStopped))
  }

  @Test func `a command that is stopped after a timeout fails and is the last attempt`() {
    let course = CommandCourse(
      program: "x", end: .killed(signal: 15), elapsed: .seconds(2), overrun: .seconds(1),
      wasStopped: true)
    let judgement = course.judged(ignoring: [], permanent: [])
    #expect(judgement.outcome == .failure(error: "timed out after 1s"))
    #expect(judgement.isLast)
  }

  @Test func `an answer that asks to be left alone counts more than how the command has ended`()
    throws
  {
    let answer = try #require(HTTPAnswer(last: Array("HTTP/2 429 \r\nretry-after: 7\r\n\r\n".utf8)))
    let hold = CallOutcome.hold(for: .seconds(7), reason: "HTTP 429")
    let late = CommandCourse(
      program: "x", end: .killed(signal: SIGTERM), elapsed: .zero, overrun: .seconds(1))
    #expect(late.judged(ignoring: [], permanent: [], answer: answer).outcome == hold)
    #expect(late.judged(ignoring: [], permanent: [], answer: answer).ending == .exit(.timedOut))
    #expect(late.judged(ignoring: [], permanent: []).outcome.isFailure)
    var stopped = CommandCourse(program: "x", end: .exited(143), elapsed: .zero, wasStopped: true)
    #expect(stopped.judged(ignoring: [], permanent: [], answer: answer).outcome == hold)
    #expect(stopped.judged(ignoring: [], permanent: []).outcome == .ignored)
    stopped.wasStopped = false
    #expect(stopped.judged(ignoring: [143], permanent: [], answer: answer).outcome == .ignored)
  }
}
