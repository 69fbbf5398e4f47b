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
    options: OptionSpec.retry + [
      OptionSpec(
        name: "timeout", kind: .duration,
        summary: "stop an attempt after D: a failure, exit code 124"),
      OptionSpec(
        name: "ignore-exit", kind: .exitCodes, isRepeatable: true,
        summary: "exit codes that say nothing of the resource, as 2,64-78"),
      OptionSpec(
        name: "permanent-exit", kind: .exitCodes, isRepeatable: true,
        summary: "exit codes that open it at once"),
      OptionSpec(
        name: "fallback", kind: .shellLine,
        summary: "a line for /bin/sh, run if the call is rejected or has failed"),
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
      "Only a failure is tried again, and only while the breaker lets calls through: each attempt "
        + "is a call of its own, with a --timeout of its own, and reads what is left of standard "
        + "input. A permanent or ignored exit code ends the attempts, and so does being told to "
        + "stop. If the policy's reporters is above 1, a permanent exit code opens the breaker only "
        + "once that many runs have failed since the last success.",
      "--fallback takes the place of a rejected call, or of one that has failed for good, and its "
        + "exit code is the one that counts. The breaker hears nothing of it. None is run once cbctl "
        + "was told to stop.",
      "--timeout sends TERM, and KILL 5 seconds later. Every signal that would end cbctl, but KILL "
        + "and those of a program's own faults, is passed on. Without a terminal, as in cron or a "
        + "service, they reach the command and whatever it has started, unless that has left its "
        + "process group, and so do TSTP and CONT; what is left of the group when the command has "
        + "ended after a timeout "
        + "is killed. On a terminal the command stays in the job that cbctl is of, so that ^C, ^Z, "
        + "fg and bg work as without cbctl; a signal sent to cbctl then reaches the command alone.",
      "A command that is a probe may take as long as it needs: while it and cbctl both run, cbctl "
        + "renews its lease. No other probe is let through in its place, so give a command that may "
        + "hang a --timeout. If cbctl is suspended for longer than probe-timeout, the probe has failed.",
      "As the first process of a container, cbctl also reaps orphans.",
      "If cbctl itself is killed with KILL, the command runs on and its outcome is lost. A probe's "
        + "slot is free at once.",
      "The command owns standard output. With --json, a rejection is printed there as 'acquire "
        + "--json' prints it, instead of the line on standard error.",
    ],
    examples: [
      Example("cbctl run payments -- curl -fsS https://pay.example/charge", "one call"),
      Example(
        "cbctl run rates --retries 3 --fallback 'cat rates.old' -- ./fetch-rates",
        "try up to 4 times, and make do with the old ones"),
      Example(
        "cbctl run mirror --preset scheduled-job --timeout 5m -- rsync -a a: b", "in cron"),
    ],
    exitCodes: [.done, .usage, .storeUnavailable, .rejected, .timedOut, .cannotRun, .notFound],
    takesPolicy: true
  ) { context, parsed throws(ControlError) in
    let retry = try RetryPolicy.given(by: parsed)
    let isStoreRequired = parsed.text("on-store-failure") == "fail"
    let breaker = try context.declaredBreaker(
      parsed, onStoreFailure: isStoreRequired ? .throw : .permit)
    var command = GuardedCommand(
      context: context, breaker: breaker, commandLine: parsed.commandLine, retry: retry)
    command.timeout = parsed.duration("timeout")
    command.ignoredCodes = parsed.codes("ignore-exit")
    command.permanentCodes = parsed.codes("permanent-exit")
    command.fallback = parsed.text("fallback")
    return try command.run()
  }
}
