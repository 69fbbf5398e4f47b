import BreakerDocuments
import SharedBreaker

extension CommandSpec {
  static let acquire = CommandSpec(
    name: "acquire",
    summary: "ask to make a call, and print a token to report its outcome with",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, summary: "the breaker")],
    options: [
      OptionSpec(
        name: "owner-pid", kind: .pid, summary: "the permit ends with this process, such as $$")
    ],
    details: [
      "The breaker is created if need be. A probe that nobody reports ends with its owner, or at "
        + "the policy's probe-timeout.",
      "A job that takes longer than probe-timeout is best run with 'cbctl run', which renews the lease "
        + "of a probe for as long as its command runs. A script that needs two steps gives the policy "
        + "a longer one, as --probe-timeout 2h, and an --owner-pid, whose end frees the slot at once.",
      "The token of a probe works once. That of a call through a closed breaker is not remembered, "
        + "so reporting it twice counts twice.",
    ],
    examples: [
      Example(
        "token=$(cbctl acquire payments --owner-pid $$); [ $? -eq 75 ] && exit 0",
        "in a shell script: only 75 is a rejection"),
      Example(
        "[ -z \"$token\" ] || cbctl report \"$token\" success",
        "when it went well; without a token there is nothing to report"),
    ],
    exitCodes: [.done, .failed, .usage, .storeUnavailable, .rejected],
    takesPolicy: true
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
      "the permit is given back: acquire another where the output is read")
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
