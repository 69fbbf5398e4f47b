import BreakerDocuments
import SharedBreaker

extension CommandSpec {
  static let acquire = CommandSpec(
    name: "acquire",
    summary: "ask for a permit, and print a token to report the outcome with",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, summary: "the breaker")],
    options: [
      OptionSpec(
        name: "owner-pid", kind: .pid,
        summary: "the process that owns the permit, which ends with it, such as $$")
    ],
    details: [
      "If the breaker does not exist, it is created. A probe that is never reported ends with its "
        + "owner, or after the policy's probe-timeout.",
      "For a job that may take longer than probe-timeout, use 'cbctl run', which renews the lease "
        + "of a probe as long as its command runs. If you need two steps, set a longer "
        + "probe-timeout, such as --probe-timeout 2h, and an --owner-pid, so that the slot is free "
        + "as soon as that process ends.",
      "A token takes no room under max-concurrent: for a call that has to count, use 'cbctl run'.",
      "The token of a probe works once. The token of a call through a closed breaker is not "
        + "remembered, so reporting it twice counts twice.",
    ],
    examples: [
      Example(
        "token=$(cbctl acquire payments --owner-pid $$); [ $? -eq 75 ] && exit 0",
        "get a permit in a script: only 75 is a rejection"),
      Example(
        "[ -z \"$token\" ] || cbctl report \"$token\" success",
        "report success; without a token, there is nothing to report"),
    ],
    exitCodes: [.done, .failed, .usage, .storeUnavailable, .rejected],
    meanings: [.done: "a call is permitted", .failed: "the token could not be printed"],
    takesPolicy: true,
    actsForUser: true
  ) { context, parsed throws(ControlError) in
    let breaker = try context.declaredBreaker(parsed, onStoreFailure: .throw)
    let owner = parsed.number("owner-pid").map { Int32($0) }
    let token: PermitToken
    do throws(BreakerError) {
      token = try breaker.acquireToken(endingWith: owner)
    } catch {
      return try context.reject(error)
    }
    printToken(token, context)
    if breaker.snapshot().policy.maxConcurrent != nil {
      context.note(
        "\(VisibleText.name(token.name)): max-concurrent does not count this call: use 'cbctl run', "
          + "which takes room for its command")
    }
    guard let problem = context.outputProblem else { return .done }
    // No process can report without the token, so the permit is given back.
    _ = try context.act { () throws(BreakerError) in try context.store.report(token, .ignored) }
    throw ControlError(
      .failed, "\(VisibleText.name(token.name)): the token cannot be printed", problem,
      "the permit was given back: acquire another where the output is read")
  }

  private static func printToken(_ token: PermitToken, _ context: CommandContext) {
    guard context.global.isJSON else { return context.print("\(token)\n") }
    context.print(
      .object([
        .init("permitted", .bool(true)),
        .init("token", .string(token.description)),
        .init("kind", .string(token.kind.wireName)),
      ]))
  }
}

extension CommandSpec {
  static let report = CommandSpec(
    name: "report",
    summary: "report the outcome of a call",
    arguments: [
      ArgumentSpec(label: "TOKEN", kind: .token, summary: "the text that 'cbctl acquire' printed"),
      ArgumentSpec(
        label: "OUTCOME", kind: .choice(["success", "failure", "hold", "ignored"]),
        summary: "success, failure, hold or ignored"),
    ],
    options: [
      OptionSpec(name: "error", kind: .remark, summary: "what went wrong, in words"),
      OptionSpec(name: "elapsed", kind: .duration, summary: "how long the call took"),
      OptionSpec(name: "permanent", summary: "open at once, because retrying cannot help"),
      OptionSpec(name: "open-for", kind: .duration, summary: "open at once, for D"),
      OptionSpec(
        name: "for", kind: .duration, summary: "with hold: the time that the resource named"),
    ],
    details: [
      "The token of a probe works once, and is refused once the probe's lease has ended. The token "
        + "of a call through a closed breaker is not remembered, so reporting it twice counts "
        + "twice.",
      "If the policy's reporters is above 1, --permanent and --open-for open the breaker only once "
        + "that many processes have reported failures since the last success.",
      "hold means that the resource works and asks to be left alone, as HTTP 429 does: it is no "
        + "failure, and the calls of every process are held until then.",
      "If the breaker has changed its state since the permit, the outcome counts in the totals and "
        + "changes nothing else.",
    ],
    examples: [
      Example(
        "cbctl report \"$token\" failure --error=\"$message\"", "report a failure and its error"),
      Example(
        "cbctl report \"$token\" failure --open-for 90s",
        "report that the server asked for 90 seconds"),
    ],
    exitCodes: [.done, .failed, .usage, .noBreaker, .storeUnavailable],
    meanings: [.failed: "the report was refused"],
    actsForUser: true
  ) { context, parsed throws(ControlError) in
    let outcome = try outcome(parsed)
    let text = parsed.text("TOKEN") ?? ""
    guard let token = PermitToken(text) else {
      throw ControlError(
        .usage, "wrong TOKEN \(VisibleText.quoted(text))", "it is not a token",
        ValueKind.token.form)
    }
    try context.connectToExisting()
    let verdict = try context.act { () throws(BreakerError) in
      try context.store.report(token, outcome, elapsed: parsed.duration("elapsed"))
    }
    // A deleted breaker counts nothing, so the caller has to know that it is gone.
    if verdict != .counted { try context.expectBreaker(of: token) }
    if context.global.isJSON {
      context.print(.object([.init("verdict", .string(verdict.wireName))]))
    }
    switch verdict {
    case .counted: return .done
    case .outdated:
      context.note(
        "\(VisibleText.name(token.name)): counted in the totals only: the breaker has changed its "
          + "state since the permit")
      return .done
    default:
      throw .refused(token.name)
    }
  }

  private static func outcome(_ parsed: ParsedCommand) throws(ControlError) -> CallOutcome {
    let isFailure = parsed.text("OUTCOME") == "failure"
    let isHold = parsed.text("OUTCOME") == "hold"
    if parsed.has("for"), !isHold {
      throw .usage("--for without hold", "it is how long calls are held", help: "report")
    }
    if isHold, !parsed.has("permanent"), !parsed.has("open-for") {
      return .hold(for: parsed.duration("for"), reason: parsed.text("error"))
    }
    for option in ["permanent", "open-for", "error"] where parsed.has(option) && !isFailure {
      throw .usage("--\(option) without failure", "it describes a failure", help: "report")
    }
    if parsed.has("permanent"), parsed.has("open-for") {
      throw .usage("--permanent and --open-for", "a failure has only one of them", help: "report")
    }
    guard isFailure else { return parsed.text("OUTCOME") == "success" ? .success : .ignored }
    var kind = CallOutcome.Failure.Kind.ordinary
    if parsed.has("permanent") { kind = .permanent }
    if let time = parsed.duration("open-for") { kind = .opens(for: time) }
    return .failure(CallOutcome.Failure(kind, error: parsed.text("error")))
  }
}

extension ControlError {
  /// The error for a probe whose lease ended before its outcome was reported.
  static func refused(_ name: String) -> ControlError {
    ControlError(
      .failed, "\(VisibleText.name(name)): report refused",
      "the probe's lease has ended",
      "its owner is gone, or it took longer than probe-timeout")
  }
}

extension CommandContext {
  /// Throws an error unless the breaker of a report still exists.
  fileprivate func expectBreaker(of token: PermitToken) throws(ControlError) {
    let found = try ask { store throws(StoreError) in try store.snapshot(of: token.name) }
    guard found == nil else { return }
    throw ControlError(
      .noBreaker, "no breaker \(VisibleText.quoted(token.name))",
      "it was deleted, so nothing was counted", "acquire a new token")
  }
}

extension ReportVerdict {
  /// The name of the verdict in JSON.
  var wireName: String {
    switch self {
    case .counted: "counted"
    case .outdated: "outdated"
    default: "refused"
    }
  }
}

extension CommandContext {
  /// Prints that a call was rejected and when to retry; throws any other error.
  func reject(_ error: BreakerError) throws(ControlError) -> Ending {
    guard case .rejected(let name, let rejection) = error else { throw ControlError(error) }
    if global.isJSON {
      print(
        .object([
          .init("permitted", .bool(false)),
          .init("state", .string(rejection.state.wireName)),
          .init("retry_after_ms", JSONValue(milliseconds: rejection.retryAfter)),
          .init("cause", .string(rejection.cause.rawValue)),
        ]))
    } else {
      note("\(VisibleText.name(name)): rejected: \(rejection)")
    }
    return .exit(.rejected)
  }
}
