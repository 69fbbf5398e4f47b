import SharedBreaker

extension CommandSpec {
  static let run = CommandSpec(
    name: "run",
    summary: "run a command behind a breaker",
    arguments: [
      ArgumentSpec(label: "NAME", kind: .name, summary: "the breaker; created if need be"),
      ArgumentSpec(
        label: "COMMAND", kind: .commandLine, summary: "the command and its arguments, after --"),
    ],
    options: [
      OptionSpec(
        name: "timeout", kind: .duration,
        summary: "stop the command after D: a failure, exit code 124"),
      OptionSpec(
        name: "ignore-exit", kind: .exitCodes,
        summary: "exit codes that say nothing of the resource, as 2,64-78"),
      OptionSpec(
        name: "permanent-exit", kind: .exitCodes, summary: "exit codes that open it at once"),
      OptionSpec(
        name: "on-store-failure", kind: .choice(["permit", "fail"]),
        summary: "run the command all the same (permit), or exit with 69"),
    ],
    details: [
      "It ends as the command did: with its exit code, or killed by the signal that killed it, "
        + "which a shell shows as 128+N. A code of cbctl's own, listed below, comes with a line on "
        + "standard error.",
      "Exit code 0 of the command is a success, any other a failure, and so is death by a signal. "
        + "A command that cannot be run says nothing of the resource, nor does one that was "
        + "stopped because cbctl was told to stop: both are ignored.",
      "--timeout sends TERM, and KILL 5 seconds later. TERM, INT, HUP and QUIT sent to cbctl are "
        + "passed on. Without a terminal, as in cron or a service, both reach the command and "
        + "whatever it has started, unless that has left its process group; what is left of the "
        + "group when the command has ended after a timeout is killed. On a terminal they reach "
        + "the command alone. If cbctl itself is killed with KILL, the command runs on.",
      "The command owns standard output. With --json, a rejection is printed there as 'acquire "
        + "--json' prints it, instead of the line on standard error.",
    ],
    examples: [
      Example("cbctl run payments -- curl -fsS https://pay.example/charge", "one call"),
      Example(
        "cbctl run mirror --failures 3 --within 10m --timeout 30s -- rsync -a a: b", "in cron"),
    ],
    exitCodes: [.done, .usage, .storeUnavailable, .rejected, .timedOut, .cannotRun, .notFound],
    takesPolicy: true
  ) { session, parsed throws(ControlError) in
    let isStoreRequired = parsed.text("on-store-failure") == "fail"
    let breaker = try session.declaredBreaker(
      parsed, onStoreFailure: isStoreRequired ? .throw : .permit)
    let permit: Permit
    do throws(BreakerError) { permit = try breaker.acquire() } catch {
      return try session.reject(error)
    }
    let isUnguarded = session.warnIfUnguarded(breaker, "the command runs without its breaker")
    let course = CommandCourse.of(
      parsed.commandLine, timeout: parsed.duration("timeout"),
      inOwnGroup: !session.console.hasTerminal,
      restoredSignals: session.console.restoredSignals)
    let judgement = course.judged(
      ignoring: parsed.codes("ignore-exit"), permanent: parsed.codes("permanent-exit"))
    let verdict =
      switch judgement.outcome {
      case .success: permit.succeed(elapsed: course.elapsed)
      case .failure(let failure): permit.fail(failure, elapsed: course.elapsed)
      case .ignored: permit.ignore()
      }
    if !isUnguarded,
      !session.warnIfUnguarded(breaker, "the outcome of the command is not recorded"),
      verdict == .refused
    {
      session.note(ControlError.refused(breaker.name).description)
    }
    if let complaint = judgement.complaint { session.complain(complaint) }
    return judgement.ending
  }
}

extension Session {
  /// Says once that the store is not to be had; whether it is so.
  fileprivate func warnIfUnguarded(_ breaker: Breaker, _ consequence: String) -> Bool {
    guard case .unavailable(let error) = breaker.health else { return false }
    note("\(consequence): \(error.description)")
    return true
  }
}
