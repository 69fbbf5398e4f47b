import BreakerDocuments
import SharedBreaker

extension CommandSpec {
  static let wait = CommandSpec(
    name: "wait",
    summary: "wait until a breaker is in a state",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, summary: "the breaker")],
    options: [
      OptionSpec(
        name: "state", kind: .choice(AwaitedState.allCases.map(\.rawValue)),
        summary: "what to wait for"),
      OptionSpec(name: "timeout", kind: .duration, summary: "give up after D, with exit code 1"),
    ],
    details: [
      "Returns at once if it is so already, and else as soon as it is, whichever process did it: "
        + "within a second while the breaker is half open, for that a probe is taken or handed back "
        + "wakes nobody. It sleeps until then, makes no call and changes nothing.",
      "closed, open and half_open are the state. permitted and rejected are what a call would meet "
        + "now, whatever the mode. due is that the next call is a probe: an open breaker comes to "
        + "it by time alone, and to half_open only with that call.",
    ],
    examples: [
      Example("cbctl wait payments --state closed --timeout 10m && ./settle", "when it is back"),
      Example("cbctl wait payments --state rejected; ./page-somebody", "when it goes down"),
    ],
    exitCodes: [.done, .failed, .usage, .noBreaker, .storeUnavailable]
  ) { context, parsed throws(ControlError) in
    let name = parsed.text("NAME") ?? ""
    guard let state = parsed.text("state").flatMap({ AwaitedState(rawValue: $0) }) else {
      throw .usage("wait for what?", "--state is not given", help: "wait")
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
      _ = Waiting(descriptors: [news.descriptor]).wait(
        atMost: [left, look].compactMap { $0 }.min())
      _ = news.take()
    }
  }

  /// Begins to listen for what happens from now on.
  func news(of name: String?) throws(ControlError) -> News {
    if let news = News(of: store, name: name) { return news }
    throw ControlError(
      .failed, "cannot wait", "this process has no descriptor left", "raise 'ulimit -n'")
  }
}
