import SharedBreaker

extension CommandSpec {
  static let run = CommandSpec(
    name: "run",
    summary: "run a command behind a breaker",
    arguments: [
      ArgumentSpec(
        label: "NAME", kind: .name, summary: "the breaker; created if it does not exist"),
      ArgumentSpec(
        label: "COMMAND", kind: .commandLine, summary: "the command and its arguments, after --"),
    ],
    options: OptionSpec.retry + [
      OptionSpec(
        name: "timeout", kind: .duration,
        summary: "stop an attempt after D: a failure, with exit code 124"),
      OptionSpec(
        name: "ignore-exit", kind: .exitCodes, isRepeatable: true,
        summary: "exit codes that are not the resource's fault, such as 2,64-78"),
      OptionSpec(
        name: "permanent-exit", kind: .exitCodes, isRepeatable: true,
        summary: "exit codes that open the breaker at once"),
      OptionSpec(
        name: "hold-exit", kind: .heldCodes, isRepeatable: true,
        summary: "exit codes that ask to be left alone, for D if you know how long, such as 29=10s"),
      OptionSpec(
        name: "http-headers", kind: .path,
        summary:
          "judge the last HTTP answer in this file, where curl -D writes it"),
      OptionSpec(
        name: "fallback", kind: .shellLine,
        summary: "a command line for /bin/sh, run if the call is rejected or fails"),
      OptionSpec(
        name: "units", kind: .count,
        summary: "take N units of max-concurrent for the command (1)"),
      OptionSpec(
        name: "background",
        summary: "leave the units of reserve to others, and wait behind them"),
      OptionSpec(
        name: "on-store-failure", kind: .choice(["permit", "fail"]),
        summary:
          "if the store is unavailable, run the command anyway (permit, the default) or exit "
          + "with 69 (fail)"),
    ],
    details: [
      "cbctl ends as the command did: with the same exit code, or killed by the same signal, which "
        + "a shell shows as 128+N. When it ends with a code of its own, listed below, it also "
        + "prints a line on standard error.",
      "Exit code 0 of the command is a success. Any other exit code is a failure, and so is death "
        + "by a signal. A command that cannot be run, or that ended because cbctl was told to "
        + "stop, tells nothing about the resource and is ignored.",
      "An exit code of --hold-exit means that the resource works and asks to be left alone: it is no "
        + "failure, and the calls of every process are held for that time. Without a time, the "
        + "first two such codes in a row hold nothing, and further ones do for the policy's hold-for, "
        + "which doubles each time.",
      "With --http-headers, the status of the answer is judged where no option names the exit code: 429 "
        + "holds the calls of every process until the time that the answer names, and so does 403 if it "
        + "names one. 408 and most statuses from 500 on are failures, and a Retry-After opens the breaker for its "
        + "time. Every other answer from 400 on is a success, because the server works. After one below 400, "
        + "and without an answer, the exit code is judged. An answer that was in the file before does not "
        + "count, so the command has to write the file anew. Give each run a file of its own.",
      "Only a failure is retried, and only while the breaker permits calls. Each attempt is a call "
        + "of its own with the whole --timeout, and reads what is left of standard input. A "
        + "permanent or ignored exit code ends the attempts, and so does a signal that tells cbctl "
        + "to stop. If the policy's reporters is above 1, a permanent exit code opens the breaker "
        + "only once that many runs have failed since the last success.",
      "--fallback runs instead of a rejected call, and after a call whose last attempt has "
        + "failed, or asks to be left alone and has a code other than 0. cbctl exits with its code, and the breaker does not count it. No fallback "
        + "runs once cbctl has been told to stop.",
      "--timeout sends TERM, and KILL 5 seconds later. cbctl passes on every signal that would end "
        + "it, except KILL and the signals of a program's own faults. Without a terminal, as in "
        + "cron or a service, these signals, TSTP and CONT reach the command and everything it has "
        + "started that is still in its process group. After a timeout, whatever remains of the group "
        + "when the command has ended is killed. On a terminal, the command stays in the job of "
        + "cbctl, so that ^C, ^Z, fg and bg work as they do without cbctl; a signal that is sent to "
        + "cbctl then reaches only the command.",
      "A command that is a probe may take as long as it needs, because cbctl renews its lease "
        + "while both run. No other probe can take its place, so give a command that may hang a "
        + "--timeout. If cbctl is suspended for longer than probe-timeout, the probe has failed.",
      "If max-concurrent leaves no room, the command waits for its turn as long as the policy's "
        + "queue-timeout permits, and is rejected with code 75 after that. What the command itself "
        + "runs through the same breaker with cbctl needs no room of its own.",
      "If cbctl is the first process of a container, it also reaps orphans.",
      "If cbctl itself is killed with KILL, the command goes on and its outcome is lost. The slot "
        + "of a probe is free at once.",
      "The command owns standard output. With --json, a rejection is printed there as 'acquire "
        + "--json' prints it, instead of the line on standard error.",
    ],
    examples: [
      Example(
        "cbctl run payments -- curl -fsS https://pay.example/charge", "make one call"),
      Example(
        "cbctl run rates --retries 3 --fallback 'cat rates.old' -- ./fetch-rates",
        "make up to 4 attempts, then use the old rates"),
      Example(
        "cbctl run api --http-headers h -- curl -sS -D h https://api.example/items",
        "hold all calls for as long as the server asks for with 429"),
      Example(
        "cbctl run mirror --preset scheduled-job --timeout 5m -- ./update-mirror",
        "run a job from cron"),
    ],
    exitCodes: [.done, .usage, .storeUnavailable, .rejected, .timedOut, .cannotRun, .notFound],
    meanings: [.done: "the command, or its fallback, succeeded"],
    takesPolicy: true,
    actsForUser: true
  ) { context, parsed throws(ControlError) in
    let retry = try RetryPolicy.given(by: parsed)
    let isStoreRequired = parsed.text("on-store-failure") == "fail"
    let breaker = try context.declaredBreaker(
      parsed, onStoreFailure: isStoreRequired ? .throw : .permit)
    var command = GuardedCommand(
      context: context,
      breaker: breaker.claiming(
        units: parsed.number("units").map { Int(clamping: $0) } ?? 1,
        inBackground: parsed.has("background")),
      commandLine: parsed.commandLine, retry: retry)
    command.timeout = parsed.duration("timeout")
    try checkMeanings(of: parsed)
    command.ignoredCodes = parsed.codes("ignore-exit")
    command.permanentCodes = parsed.codes("permanent-exit")
    command.heldCodes = parsed.heldCodes("hold-exit")
    command.headerFile = parsed.text("http-headers")
    command.fallback = parsed.text("fallback")
    return try command.run()
  }

  /// Refuses a timeout that leaves a command no time, and an exit code that several options name.
  private static func checkMeanings(of parsed: ParsedCommand) throws(ControlError) {
    if parsed.duration("timeout") == .zero {
      throw .usage(
        "--timeout 0", "no command can end in that time: leave it out to wait for ever", help: "run"
      )
    }
    var meanings: [Int32: String] = [:]
    for option in ["ignore-exit", "permanent-exit", "hold-exit"] {
      for code in parsed.codes(option).union(parsed.heldCodes(option).keys) {
        guard let other = meanings.updateValue(option, forKey: code) else { continue }
        throw .usage(
          "exit code \(code) of --\(other) and --\(option)", "it can mean only one thing",
          help: "run")
      }
    }
  }
}

extension OptionSpec {
  /// How often `run` retries, and how long it waits before each retry.
  static let retry = [
    OptionSpec(
      name: "retries", kind: .countFromZero,
      summary: "after a failure or a hold, retry up to N times (0)"),
    OptionSpec(
      name: "retry-delay", kind: .duration, summary: "wait D before the first retry (1s)"),
    OptionSpec(
      name: "retry-backoff", kind: .factor,
      summary: "make each further wait X times as long (1)"),
    OptionSpec(
      name: "retry-max-delay", kind: .duration,
      summary: "never wait longer than D, also for a hold (1m)"),
    OptionSpec(
      name: "retry-jitter", kind: .rate,
      summary: "vary each wait by up to this share either way (0%)"),
  ]
}

extension RetryPolicy {
  /// The retries that the options of a command line describe.
  ///
  /// - Throws: A usage error if the options contradict each other.
  static func given(by parsed: ParsedCommand) throws(ControlError) -> RetryPolicy {
    let command = parsed.spec.name
    guard let retries = parsed.number("retries") else {
      if let option = OptionSpec.retry.first(where: { parsed.has($0.name) }) {
        throw .usage("--\(option.name) without --retries", "nothing is retried", help: command)
      }
      return .never
    }
    let factor = parsed.factor("retry-backoff") ?? 1
    guard factor >= 1 else {
      throw .usage("--retry-backoff below 1", "waits would get shorter", help: command)
    }
    let jitter = parsed.rate("retry-jitter") ?? 0.0
    guard jitter <= 1.0 else {
      throw .usage("--retry-jitter above 100%", "waits would be negative", help: command)
    }
    let delay = parsed.duration("retry-delay") ?? .seconds(1)
    let longest = parsed.duration("retry-max-delay") ?? max(delay, .seconds(60))
    return .exponential(
      attempts: Int(min(retries, .max - 1)) + 1, delay: delay, factor: factor, longest: longest,
      jitter: jitter)
  }
}
