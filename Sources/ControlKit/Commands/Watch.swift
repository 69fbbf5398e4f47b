import SharedBreaker

extension CommandSpec {
  static let watch = CommandSpec(
    name: "watch",
    summary: "show breakers live, or print their changes",
    arguments: [
      ArgumentSpec(
        label: "NAME", kind: .pattern, count: .any,
        summary: "a name, or a pattern with *, ? or [a-z]; every breaker if none is given")
    ],
    details: [
      "On a terminal it is the table of 'status', the worst first, with calls a second that "
        + "succeeded, failed and were rejected in the last seconds. A change shows at once, "
        + "whichever process made it. q or ^C quits; arrows, j, k, space, b, g and G scroll; ^Z stops "
        + "it for a while.",
      "Otherwise, and with --json or TERM=dumb, it prints a line for each breaker as it stands, and "
        + "then one for each change, until nobody reads it any more. Each tells how the breaker "
        + "stands when the line is printed.",
      "It sleeps until the store wakes it. Asking changes nothing.",
    ],
    examples: [
      Example("cbctl watch 'payments-*'", "during an outage"),
      Example("cbctl watch --json | ./to-chat", "a program that tells people"),
    ]
  ) { context, parsed throws(ControlError) in
    let patterns = parsed.distinctTexts("NAME").map { NamePattern($0) }
    // At the start a name that no breaker has is an error; later it is a deleted breaker.
    try context.connectToExisting()
    for pattern in patterns where pattern.isName { _ = try context.snapshot(of: pattern.text) }
    let news = try context.news(of: nil)
    defer { news.end() }
    let console = context.console
    if console.canDraw, !context.global.isJSON, let output = console.outputDescriptor,
      let screen = Screen(output: output)
    {
      defer { screen.end() }
      return LiveView(context, screen, patterns, news).run()
    }
    try ChangeLines(context, patterns, news).run()
    return .done
  }
}

extension CommandContext {
  /// The breakers that match names and patterns, by name; names that do not exist are skipped.
  func watched(_ patterns: [NamePattern]) throws(ControlError) -> [BreakerSnapshot] {
    let beginning = NamePattern.commonBeginning(of: patterns)
    return try ask { store throws(StoreError) in
      try store.snapshots(beginningWith: beginning) { name in
        patterns.isEmpty || patterns.contains { $0.matches(name) }
      }
    }
  }
}
