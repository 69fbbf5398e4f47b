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
    exitCodes: [.done, .usage, .storeUnavailable, .rejected],
    takesPolicy: true
  ) { session, parsed throws(ControlError) in
    let breaker = try session.declaredBreaker(parsed, onStoreFailure: .throw)
    let owner = parsed.number("owner-pid").map { Int32($0) }
    do throws(BreakerError) {
      let token = try breaker.acquireToken(endingWith: owner)
      printToken(token, session)
    } catch {
      return try session.reject(error)
    }
    return .done
  }

  private static func printToken(_ token: PermitToken, _ session: Session) {
    guard session.global.isJSON else { return session.print("\(token)\n") }
    session.print(
      .object([
        .init("permitted", .bool(true)),
        .init("token", .string(token.description)),
        .init("kind", .string(token.kind.wireName)),
      ]))
  }
}
