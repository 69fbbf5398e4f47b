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
      "If the breaker does not exist, it is created. A probe that nobody reports ends with its "
        + "owner, or at the policy's probe-timeout.",
      "For a job that may take longer than probe-timeout, use 'cbctl run', which renews the lease "
        + "of a probe as long as its command runs. If you need two steps, set a longer "
        + "probe-timeout, such as --probe-timeout 2h, and an --owner-pid, whose end frees the slot "
        + "at once.",
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
    guard let problem = context.outputProblem else { return .done }
    // Without the token nobody can report, so the permit goes back at once.
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
