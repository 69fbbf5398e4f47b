import BreakerDocuments
import SharedBreaker

extension CommandSpec {
  static let wait = CommandSpec(
    name: "wait",
    summary: "wait until a breaker reaches a state",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, summary: "the breaker")],
    options: [
      OptionSpec(
        name: "state", kind: .choice(AwaitedState.allCases.map(\.rawValue)),
        summary: "the state to wait for"),
      OptionSpec(name: "timeout", kind: .duration, summary: "give up after D, with exit code 1"),
    ],
    details: [
      "Returns at once if the breaker is already in that state, and otherwise as soon as it is, "
        + "whichever process changed it. Until then the command sleeps; it makes no call and "
        + "changes nothing. The start or end of a probe wakes nobody, so while a probe may be "
        + "under way, the command may notice a change up to a second late.",
      "closed, open and half_open are the breaker's state. permitted and rejected are what would "
        + "happen to a call now, whatever the mode. due means that the next call is a probe: time "
        + "alone makes an open breaker due, but only that call makes it half_open.",
    ],
    examples: [
      Example(
        "cbctl wait payments --state closed --timeout 10m && ./settle",
        "continue when the resource is back"),
      Example(
        "cbctl wait payments --state rejected; ./page-somebody",
        "alert somebody when calls are rejected"),
    ],
    exitCodes: [.done, .failed, .usage, .noBreaker, .storeUnavailable],
    meanings: [.done: "the breaker is in that state", .failed: "the wait timed out"]
  ) { context, parsed throws(ControlError) in
    let name = parsed.text("NAME") ?? ""
    guard let state = parsed.text("state").flatMap({ AwaitedState(rawValue: $0) }) else {
      throw .usage("no --state", "it says what to wait for", help: "wait")
    }
    let snapshot = try context.wait(
      for: state, of: name, atMost: parsed.duration("timeout"))
    if context.global.isJSON {
      context.print(BreakerDocument.list([snapshot]))
    } else if !context.global.isQuiet {
      context.print(StateLine.text(of: snapshot) + "\n")
    }
    return .done
  }
}

extension CommandContext {
  fileprivate func wait(
    for state: AwaitedState, of name: String, atMost timeout: Duration?
  ) throws(ControlError) -> BreakerSnapshot {
    try connectToExisting()
    let end = timeout.map { ContinuousClock.now + $0 }
    // Listening begins before the first look, so that no change is missed between the two.
    let news = try news(of: name)
    defer { news.end() }
    while true {
      let snapshot = try snapshot(of: name)
      if state.holds(for: snapshot) { return snapshot }
      let left = end.map { $0 - ContinuousClock.now }
      if let left, left <= .zero {
        throw ControlError(
          .failed,
          "\(VisibleText.quoted(name)) is not \(state.rawValue) after "
            + SpokenDuration.format(timeout ?? .zero),
          StateLine.words(of: snapshot), "wait longer, or run 'cbctl show'")
      }
      let look = state.nextLook(at: snapshot)
      _ = DescriptorPoll(descriptors: [news.descriptor]).wait(
        atMost: [left, look].compactMap { $0 }.min())
      _ = news.take()
    }
  }

  /// Begins to listen for what happens from now on.
  func news(of name: String?) throws(ControlError) -> News {
    if let news = News(of: store, name: name) { return news }
    throw ControlError(
      .failed, "cannot wait", "this process has no file descriptor left", "raise 'ulimit -n'")
  }
}
