import SharedBreaker

extension OptionSpec {
  /// How often `run` tries, and how long it waits in between.
  static let retry = [
    OptionSpec(
      name: "retries", kind: .countFromZero,
      summary: "after a failure, retry up to N times (0)"),
    OptionSpec(
      name: "retry-delay", kind: .duration, summary: "wait D before the first retry (1s)"),
    OptionSpec(
      name: "retry-backoff", kind: .factor,
      summary: "make each further wait X times as long (1)"),
    OptionSpec(name: "retry-max-delay", kind: .duration, summary: "never wait longer than D (1m)"),
    OptionSpec(
      name: "retry-jitter", kind: .rate,
      summary: "vary each wait by up to this share either way (0%)"),
  ]
}

extension RetryPolicy {
  /// The retries that the options of a command line describe.
  ///
  /// - Throws: A usage error if the options make no sense together.
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
