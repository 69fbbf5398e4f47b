import BreakerDocuments
import SharedBreaker

extension CommandSpec {
  static let show = CommandSpec(
    name: "show",
    summary: "show everything about one breaker",
    arguments: [
      ArgumentSpec(label: "NAME", kind: .name, summary: "the breaker, or a pattern with * or ?")
    ],
    details: [
      "Shows the breaker's state, its window and last error, a chart of its last day, its policy "
        + "and where each value comes from, policies that code has declared and that are not in "
        + "force, the owners of its probes, and the last 10 lines of its history. If it has a limit, "
        + "also who has calls under way and who waits: the program, its process, how many units, and "
        + "for how long. Times are in UTC."
    ],
    examples: [Example("cbctl show payments", "find out why it is open")]
  ) { context, parsed throws(ControlError) in
    var details: [BreakerDetails] = []
    for snapshot in try context.shown(parsed.text("NAME") ?? "") {
      details.append(
        BreakerDetails(
          snapshot: snapshot,
          declarations: try context.ask { store throws(StoreError) in
            try store.declarations(of: snapshot.name)
          },
          history: try context.ask { store throws(StoreError) in
            try store.history(of: snapshot.name)
          },
          now: context.now()))
    }
    if context.global.isJSON {
      context.print(BreakerDocument.list(of: details.map(\.json)))
    } else {
      let width = context.console.width ?? HelpPage.width
      let pages = details.map { $0.page(width: width, painter: context.painter) }
      context.print(pages.joined(separator: "\n"))
    }
    return .done
  }
}

/// Everything that is known about one breaker, for `show`.
struct BreakerDetails {
  var snapshot: BreakerSnapshot
  var declarations: [PolicyDeclaration]

  /// The breaker's history as far as it is kept, oldest first.
  var history: [HistoryEntry]

  /// When the snapshot was taken.
  var now: BreakerTimestamp

  /// How many of the newest rows of the history are shown.
  static let recentCount = 10

  /// The newest entries, one by one.
  var recent: [HistoryEntry] { history.suffix(Self.recentCount) }

  /// The states of the last day.
  var timeline: Timeline {
    Timeline(of: snapshot, history: history, from: now.earlier(by: .seconds(86_400)), to: now)
  }
}

extension BreakerDetails {
  /// The breaker of `show --json`: the members of `status`, and more.
  var json: JSONValue {
    .object(
      BreakerDocument.members(of: snapshot) + [
        .init("policy_sources", Self.sources(of: snapshot)),
        .init("declarations", .array(declarations.map(Self.json))),
        .init("leases", .array(snapshot.leases.map(Self.json))),
      ] + LimitDetails(snapshot: snapshot).members + [
        .init("history", .array(recent.map(EntryDocument.of))),
        .init("timeline", .array(timeline.stretches.map(Self.json))),
      ])
  }

  private static func json(_ stretch: Timeline.Stretch) -> JSONValue {
    .object([
      .init("state", JSONValue(stretch.state?.wireName)),
      .init("mode", .string(stretch.mode.wireName)),
      .init("due", due(stretch)),
      .init("from", BreakerDocument.time(stretch.start)),
      .init("to", BreakerDocument.time(stretch.end)),
    ])
  }

  private static func due(_ stretch: Timeline.Stretch) -> JSONValue {
    switch stretch.state {
    case .open: stretch.isDue.map { .bool($0) } ?? .null
    case .closed, .halfOpen: .bool(false)
    case nil: .null
    }
  }

  static func sources(of snapshot: BreakerSnapshot) -> JSONValue {
    .object(
      PolicyKey.allCases.map { key in
        .init(key.rawValue, .string(snapshot.source(of: key).rawValue))
      })
  }

  private static func json(_ declaration: PolicyDeclaration) -> JSONValue {
    .object([
      .init("policy", .string(declaration.text)),
      .init("in_force", .bool(declaration.isInForce)),
      .init("at", BreakerDocument.time(declaration.at)),
      .init("by", EntryDocument.by(declaration.pid, declaration.program)),
    ])
  }

  private static func json(_ lease: LeaseSnapshot) -> JSONValue {
    .object([
      .init("owner_pid", JSONValue(lease.ownerPid.map { Int64($0) })),
      .init("owner_gone", .bool(lease.isOwnerGone)),
      .init("ends_in_ms", JSONValue(milliseconds: lease.endsIn)),
    ])
  }
}

extension BreakerDetails {
  /// The page of `show`.
  func page(width: Int = HelpPage.width, painter: Painter) -> String {
    let inner = max(20, width - 2)
    var lines = headline(width: width, painter: painter)
    func section(_ title: String, _ section: [String]) {
      guard !section.isEmpty else { return }
      if !title.isEmpty { lines += ["", painter.paint(title, .bold)] }
      lines += section.map { "  \($0)" }
    }
    section("", facts(width: inner))
    section("Last day", TimelineLines.render(timeline, width: inner, painter: painter))
    let policy = PolicyTable.render(snapshot, width: inner, painter: painter)
    section("Policy", policy + drift(width: inner))
    section("Probes under way", snapshot.leases.map(Self.words))
    let limit = LimitDetails(snapshot: snapshot)
    func wrapped(_ lines: [String]) -> [String] {
      lines.flatMap { TextWrap.hanging($0, after: "", width: inner) }
    }
    section("Calls under way", wrapped(limit.calls))
    section("Waiting for \(limit.obstacle)", wrapped(limit.waiters))
    let rows = HistoryRow.folded(history).suffix(Self.recentCount)
    let entries = HistoryLines(now: now, width: inner).render(Array(rows))
    section("History", entries.isEmpty ? ["nothing yet"] : entries)
    return lines.map { $0 + "\n" }.joined()
  }

  /// The name and the state, which has lines of its own if its reason is long.
  private func headline(width: Int, painter: Painter) -> [String] {
    let name = VisibleText.name(snapshot.name) + ":"
    let state = StateLine.words(of: snapshot)
    let color = StatusTable.color(of: snapshot)
    if TextWidth.of("\(name) \(state)") <= width {
      return [painter.paint(name, .bold) + " " + painter.paint(state, color)]
    }
    return TextWrap.lines(name, width: width).map { painter.paint($0, .bold) }
      + TextWrap.lines(state, width: width - 2).map { "  " + painter.paint($0, color) }
  }

  private static let labelWidth = 14

  private func facts(width: Int) -> [String] {
    var facts: [(label: String, text: String)] = []
    func add(_ label: String, _ time: BreakerTimestamp?) {
      if let time { facts.append((label, "\(time) (\(Age.text(of: time, at: now)))")) }
    }
    if snapshot.mode != .automatic {
      if let author = snapshot.modeSetBy { facts.append(("mode set by", VisibleText.bare(author))) }
      add("mode since", snapshot.modeSetAt)
      let end = snapshot.modeEndsIn.map { "\(now.later(by: $0)) (in \(SpokenDuration.format($0)))" }
      facts.append(("mode until", end ?? "somebody removes it"))
    }
    add("created", snapshot.createdAt)
    add("changed", snapshot.changedAt)
    if snapshot.state != .closed { add("opened", snapshot.openedAt) }
    if let suspicion { facts.append(("because", suspicion)) }
    add("suspected", snapshot.suspectedAt)
    facts += HoldWords.facts(snapshot, at: now)
    if !snapshot.isNextCallProbe, let wait = snapshot.retryAfter {
      facts.append(("retry", "\(now.later(by: wait)) (in \(SpokenDuration.format(wait)))"))
    }
    facts.append(("trips", "\(snapshot.trips) (generation \(snapshot.generation))"))
    facts.append(("failures", "\(snapshot.consecutiveFailures) consecutive"))
    if snapshot.policy.failureRate != nil || snapshot.policy.slowRate != nil {
      facts.append(("window", window))
    }
    facts += LimitDetails(snapshot: snapshot).facts
    facts.append(("totals", totals))
    add("last failure", snapshot.lastFailureAt)
    if let error = snapshot.lastError { facts.append(("last error", VisibleText.bare(error))) }
    return facts.flatMap { label, text in
      let label = label + String(repeating: " ", count: Self.labelWidth - label.count)
      return TextWrap.hanging(text, after: label, width: width)
    }
  }

  /// Why a breaker became half-open without a failure on this host; nil if that did not happen.
  private var suspicion: String? {
    guard snapshot.state == .halfOpen,
      let last = history.last(where: { $0.change.stateAfter != nil }),
      last.change == .suspicion(from: .closed, to: .halfOpen)
    else { return nil }
    return last.reason.map { VisibleText.bare($0) }
  }

  var window: String {
    let rate = snapshot.failureRate.map { " (\(RateWords.format($0)))" } ?? ""
    return "\(CountedNoun.text(snapshot.windowCalls, "call")), \(snapshot.windowFailures) failed"
      + "\(rate), \(snapshot.windowSlow) slow"
  }

  var totals: String {
    let totals = snapshot.totals
    let counts = [
      (totals.successes, "succeeded"), (totals.failures, "failed"), (totals.ignored, "ignored"),
      (totals.rejections, "rejected"), (totals.slow, "slow"),
      (totals.busy, "busy"), (totals.holds, "asked to wait"), (totals.held, "held"),
      (totals.ramping, "rejected in a ramp"), (totals.overRate, "rejected by the rate"),
      (totals.retries, "sent again"), (totals.overBudget, "not sent again"),
      (totals.wouldReject, "would have been rejected"),
      (totals.lostCalls, "lost"),
    ]
    let words = counts.filter { $0.0 > 0 }.map { "\($0) \($1)" }
    return words.isEmpty ? "no calls yet" : words.joined(separator: ", ")
  }

  /// The policies that code has declared and that differ from the one in force.
  private func drift(width: Int) -> [String] {
    func author(_ declaration: PolicyDeclaration) -> String {
      "\(VisibleText.bare(declaration.program)) (pid \(declaration.pid))"
    }
    let ruling = declarations.first { $0.isInForce }
    return declarations.filter { !$0.isInForce && $0.text != ruling?.text }.flatMap { other in
      let words = ruling.map { ruling in
        let difference = PolicyDifference(from: ruling.text, to: other.text).text()
        return ", compared with \(author(ruling)): \(VisibleText.bare(difference))"
      }
      return TextWrap.hanging(
        "by \(author(other))" + (words ?? ": \(other.words)"), after: "not in force: ",
        width: width)
    }
  }

  private static func words(of lease: LeaseSnapshot) -> String {
    let owner = lease.ownerPid.map { "pid \($0)" } ?? "no owner"
    if lease.isOwnerGone { return "\(owner), which has ended" }
    return "\(owner), ends in \(SpokenDuration.format(lease.endsIn))"
  }
}
