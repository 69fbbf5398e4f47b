import BreakerDocuments
@_spi(Relay) import SharedBreaker

extension CommandSpec {
  static let policy = CommandSpec(
    name: "policy",
    summary: "show or change a breaker's policy",
    arguments: [
      ArgumentSpec(label: "NAME", kind: .name, summary: "the breaker, or a pattern with * or ?")
    ],
    options: [
      OptionSpec(
        name: "set", kind: .policySetting, isRepeatable: true,
        summary: "set a word of the policy; creates the breaker if it does not exist, and says so"),
      OptionSpec(
        name: "unset", kind: .policyKey, isRepeatable: true,
        summary: "go back to the code's value of a word"),
      OptionSpec(
        name: "unset-all",
        summary: "go back to the code's values of all words that this command does not set"),
      .fleet, .wait,
    ],
    details: [
      "In every process, a value that you set takes precedence over the code's until you unset it.",
      "'cbctl help policy-words' explains the words.",
    ],
    examples: [
      Example("cbctl policy payments", "show the policy in force, and where each value comes from"),
      Example("cbctl policy payments --set max-failures=3 --set open-for=1m", "make it stricter"),
      Example("cbctl policy 'http/*' --set rate=10/1s", "change all that match"),
      Example("cbctl policy payments --unset open-for", "go back to the code's value"),
      Example("cbctl policy payments --unset-all", "go back to the code's policy"),
    ],
    exitCodes: [.done, .usage, .noBreaker, .unconfirmed, .storeUnavailable],
    actsForUser: true
  ) { context, parsed throws(ControlError) in
    let name = parsed.text("NAME") ?? ""
    let settings = parsed.settings("set")
    var unset = parsed.keys("unset")
    if settings.isEmpty, unset.isEmpty, !parsed.has("unset-all") {
      if let option = ["fleet", "wait"].first(where: { parsed.has($0) }) {
        throw .usage(
          "--\(option) without a change", "every host has a policy of its own", help: "policy")
      }
      printPolicies(of: try context.shown(name), context)
      return .done
    }
    if let key = unset.first(where: { settings[$0] != nil }) {
      throw .usage(
        "--set and --unset of \(key.rawValue)", "they contradict each other", help: "policy")
    }
    // With --set, only the values that are set now remain.
    if parsed.has("unset-all") { unset = Set(PolicyKey.allCases) }
    let fleet = try context.fleet(of: parsed)
    return try context.change(
      creating: !settings.isEmpty, for: fleet, .policy(set: settings, unset: unset), parsed,
      telling: ChangeReport(
        line: { "\(StateLine.text(of: $0)); \(operatorWords(of: $0))" }, members: members)
    ) { breaker throws(BreakerError) in
      try breaker.overridePolicy(set: settings, unset: unset, scope: fleet.scope)
      return nil
    }
  }

  private static func members(of snapshot: BreakerSnapshot) -> [JSONValue.Member] {
    BreakerDocument.members(of: snapshot) + [
      .init("policy_sources", BreakerDetails.sources(of: snapshot))
    ]
  }

  private static func printPolicies(of snapshots: [BreakerSnapshot], _ context: CommandContext) {
    guard !context.global.isJSON else {
      context.print(BreakerDocument.list(of: snapshots.map { .object(members(of: $0)) }))
      return
    }
    let tables = snapshots.map { snapshot in
      let title = snapshots.count > 1 ? ["\(VisibleText.name(snapshot.name)):"] : []
      let rows = title + PolicyTable.render(snapshot, width: context.console.width)
      return rows.map { $0 + "\n" }.joined()
    }
    context.print(tables.joined(separator: "\n"))
  }

  private static func operatorWords(of snapshot: BreakerSnapshot) -> String {
    let words = PolicyKey.allCases.compactMap { key in
      snapshot.operatorValues[key].map { "\(key.rawValue)=\(VisibleText.bare($0))" }
    }
    return words.isEmpty
      ? "nothing set by an operator" : "set by an operator: " + words.joined(separator: " ")
  }
}

extension BreakerSnapshot {
  /// The words of the policy in force that mean something: what lost calls are does not without a limit.
  var policyWords: [(key: PolicyKey, text: String)] {
    PolicyKey.allCases.compactMap { key in
      guard key != .lostCalls || policy.maxConcurrent != nil else { return nil }
      return policy.text(for: key).map { (key, $0) }
    }
  }
}

/// A policy as aligned lines, one for each word, with the source of its value.
enum PolicyTable {
  /// The lines, which are not aligned if that would make them wider than `width`.
  static func render(
    _ snapshot: BreakerSnapshot, width: Int? = nil, painter: Painter = Painter(isOn: false)
  ) -> [String] {
    let rows = snapshot.policyWords
    let labelWidth = rows.map { $0.key.rawValue.count }.max() ?? 0
    let valueWidth = rows.map { $0.text.count }.max() ?? 0
    let sourceWidth = rows.map { snapshot.source(of: $0.key).rawValue.count }.max() ?? 0
    let isWide = width.map { labelWidth + valueWidth + sourceWidth + 4 > $0 } ?? false
    return rows.map { key, text in
      let source = snapshot.source(of: key)
      if isWide {
        return "\(key.rawValue) \(text) " + painter.paint(source.rawValue, color(of: source))
      }
      return key.rawValue + String(repeating: " ", count: labelWidth - key.rawValue.count + 2)
        + text + String(repeating: " ", count: valueWidth - text.count + 2)
        + painter.paint(source.rawValue, color(of: source))
    }
  }

  /// Marks an operator's values, which win over the code's and are easily forgotten.
  private static func color(of source: PolicySource) -> Color? {
    switch source {
    case .default: .faint
    case .code: nil
    case .operator: .yellow
    @unknown default: nil
    }
  }
}
