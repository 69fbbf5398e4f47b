import SharedBreaker

extension CommandSpec {
  static let watch = CommandSpec(
    name: "watch",
    summary: "show breakers live, or print their changes",
    arguments: [.patterns],
    details: [
      "On a terminal, this is the table of 'status' kept up to date, with the calls a second that "
        + "succeeded, failed and were rejected in the last five seconds. A change appears at "
        + "once, whichever process made it. q or ^C quits; the arrow keys, j, k, space, b, g and "
        + "G scroll; ^Z suspends it.",
      "In a pipe, or with --json or TERM=dumb, it prints one line for each breaker and then one "
        + "for each change, until nobody reads its output any more. Each line says how the "
        + "breaker stands when the line is printed. If the store is deleted or cannot be read, a "
        + "line on standard error says so, and another when it is back.",
      "The command sleeps until the store wakes it, and changes nothing.",
    ],
    examples: [
      Example("cbctl watch 'payments-*'", "watch some breakers during an outage"),
      Example("cbctl watch --json | ./to-chat", "pass every change to a program"),
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
