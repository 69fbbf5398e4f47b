import BreakerDocuments
@_spi(Command) import SharedBreaker

/// The calls under way under a limit, in words.
enum LimitWords {
  /// Stands for an unknown number.
  static let unknown = "?"

  /// Whether there is something to tell about the room of calls.
  static func isShown(_ snapshot: BreakerSnapshot) -> Bool {
    snapshot.policy.maxConcurrent != nil || snapshot.policy.rate != nil || snapshot.limit != nil
  }

  /// The units under way and how many may be, as in `3/4`; nil if any number may.
  static func busy(_ snapshot: BreakerSnapshot) -> String? {
    most(snapshot).map { most in
      "\(snapshot.limit.map { String($0.unitsInUse) } ?? unknown)/\(most)"
    }
  }

  /// How many units may be under way, also because of a ramp; nil if any number may.
  private static func most(_ snapshot: BreakerSnapshot) -> Int? {
    let most = snapshot.policy.maxConcurrent
    guard let ramp = snapshot.ramp?.unitsPermitted else { return most }
    return min(ramp, most ?? ramp)
  }

  /// How many callers wait; nil if none can.
  static func queue(_ snapshot: BreakerSnapshot) -> String? {
    if let limit = snapshot.limit { return String(limit.waiting) }
    return snapshot.policy.maxConcurrent == nil && snapshot.policy.rate == nil ? nil : unknown
  }

  /// How many calls have begun, how many may, and in which time, as in `37/50 1m`; nil without a rate.
  static func begun(_ snapshot: BreakerSnapshot) -> String? {
    snapshot.policy.rate.map { rate in
      let begun = snapshot.rate.map { String($0.begun) } ?? unknown
      return "\(begun)/\(rate.calls) \(DurationText.format(rate.interval))"
    }
  }

  /// How many retries were sent beside how many first attempts in the last 10 s, and the share that may be, as in
  /// `3/60 20%`; nil without a budget.
  static func retries(_ snapshot: BreakerSnapshot) -> String? {
    snapshot.policy.retryBudget.map { share in
      let sent = snapshot.retries.map { "\($0.sent)/\($0.firstAttempts)" } ?? unknown
      return "\(sent) \(share)"
    }
  }

  /// The time that is left of a ramp, for a column; nil if there is none.
  static func ramp(_ snapshot: BreakerSnapshot, _ words: (Duration) -> String) -> String? {
    snapshot.ramp.map { words($0.endsIn) }
  }

  /// Why a call may have to wait now, for room or for the end of a hold; nil if it need not, or if that is unknown.
  static func wait(_ snapshot: BreakerSnapshot) -> String? {
    guard snapshot.rejection?.cause == .held, let left = snapshot.retryAfter else {
      return obstacle(snapshot)
    }
    guard let patience = snapshot.policy.queueTimeout, left <= patience else { return nil }
    return "held for another \(SpokenDuration.format(left))"
  }

  /// Why a call finds no room now; nil if it does, or if that is unknown.
  static func obstacle(_ snapshot: BreakerSnapshot) -> String? {
    guard snapshot.permits, let cause = snapshot.causeWithoutRoom, let limit = snapshot.limit else {
      return nil
    }
    if cause == .rate, let rate = snapshot.policy.rate, let next = snapshot.rate?.nextIn {
      return "\(rate) have begun: the next may in \(SpokenDuration.format(next))" + waiting(limit)
    }
    guard let busy = busy(snapshot) else { return nil }
    let ramp = snapshot.ramp.map { " in a ramp that ends in \(SpokenDuration.format($0.endsIn))" }
    return "no room: \(busy) units under way\(ramp ?? "")" + waiting(limit)
  }

  fileprivate static func waiting(_ limit: LimitSnapshot) -> String {
    limit.waiting == 0 ? "" : ", \(limit.waiting) waiting"
  }
}

extension LimitSnapshot {
  /// How many callers wait that have not ended.
  var waiting: Int { waiters.count { !$0.isOwnerGone } }
}

/// The calls that have room under a limit and the callers that wait, for `show` and `page`.
struct LimitDetails {
  var snapshot: BreakerSnapshot

  /// How many of the calls, and how many of the callers that wait, have a line.
  private static let most = 20

  /// The limit and how it is used, in facts of one line each; none without a limit.
  var facts: [(label: String, text: String)] {
    var facts = rampFacts + rateFacts + retryFacts
    guard let most = snapshot.policy.maxConcurrent else { return facts + waitFacts }
    guard let limit = snapshot.limit else {
      return facts + [
        (
          "limit",
          "\(units(most)); how many are under way is not known: no call has been made since the host"
            + " booted, or the file of the slots could not be made, was deleted, is full, or is closed"
            + " to this user"
        )
      ]
    }
    facts.append(
      ("limit", "\(limit.unitsInUse) of \(units(most)) under way" + LimitWords.waiting(limit)))
    return facts + waitFacts
  }

  private var waitFacts: [(label: String, text: String)] {
    guard let waits = snapshot.limit?.waits, waits.count > 0 || waits.abandoned > 0 else {
      return []
    }
    var words: [String] = []
    if waits.count > 0 {
      let mean = SpokenDuration.format(waits.total / Int(clamping: waits.count))
      words.append("\(waits.count) had their turn, after \(mean) on average")
    }
    if waits.abandoned > 0 { words.append("\(waits.abandoned) left without it") }
    return [("waits", words.joined(separator: "; "))]
  }

  private var rateFacts: [(label: String, text: String)] {
    guard let rate = snapshot.policy.rate else { return [] }
    let interval = SpokenDuration.format(rate.interval)
    guard let use = snapshot.rate else {
      return [
        (
          "rate",
          "\(CountedNoun.text(rate.calls, "call")) in \(interval); how many have begun is not known"
        )
      ]
    }
    let next =
      use.nextIn == .zero
      ? "the next may begin now" : "the next may begin in \(SpokenDuration.format(use.nextIn))"
    let waiting =
      snapshot.policy.maxConcurrent == nil ? snapshot.limit.map(LimitWords.waiting) ?? "" : ""
    return [
      (
        "rate",
        "\(use.begun) of \(CountedNoun.text(rate.calls, "call")) have begun in \(interval); \(next)\(waiting)"
      )
    ]
  }

  private var retryFacts: [(label: String, text: String)] {
    guard let share = snapshot.policy.retryBudget else { return [] }
    let most = "at most \(share), and 10 a second"
    guard let retries = snapshot.retries else {
      return [("retries", "\(most); how many were sent is not known")]
    }
    let attempts = CountedNoun.text(retries.firstAttempts, "first attempt")
    let next = retries.permitsAnother ? "" : "; no other one now"
    return [("retries", "\(retries.sent) for \(attempts) in 10s; \(most)\(next)")]
  }

  private var rampFacts: [(label: String, text: String)] {
    guard let ramp = snapshot.ramp else { return [] }
    let most = ramp.unitsPermitted.map { "at most \(units($0)) under way" } ?? "few units under way"
    return [("ramp", "\(most), until it ends in \(SpokenDuration.format(ramp.endsIn))")]
  }

  /// The calls under way, the oldest first.
  var calls: [String] {
    lines(snapshot.limit?.calls.sorted { $0.age > $1.age } ?? [], verb: "for")
  }

  /// The obstacle for which callers wait.
  var obstacle: String {
    if snapshot.rejection?.cause == .held { return "the end of the hold" }
    return snapshot.causeWithoutRoom == .rate ? "their turn" : "room"
  }

  /// The callers that wait, in the order in which they are served.
  var waiters: [String] { lines(snapshot.limit?.waiters ?? [], verb: "waiting for") }

  private func lines(_ all: [LimitSnapshot.Participant], verb: String) -> [String] {
    let lines = all.prefix(Self.most).map { one in
      let owner = one.pid.map { "pid \($0)" } ?? "an unknown process"
      let command = one.command.map { "\(VisibleText.bare($0)), via " } ?? ""
      let name = one.program.map { "\(command)\(VisibleText.bare($0)) (\(owner))" } ?? owner
      var parts = [name, units(one.units), "\(verb) \(SpokenDuration.format(one.age))"]
      if one.isStopped { parts.append("stopped") }
      if one.isBackground { parts.append("in the background") }
      if one.isOwnerGone { parts.append("which has ended") }
      if one.isAbsent { parts.append("which did not come for its turn") }
      return parts.joined(separator: ", ")
    }
    let rest = all.count - lines.count
    return rest > 0 ? lines + ["and \(rest) more"] : lines
  }

  private func units(_ count: Int) -> String { CountedNoun.text(count, "unit") }
}

extension LimitDetails {
  /// The calls under way and the callers that wait, for JSON; null where they are unknown.
  var members: [JSONValue.Member] {
    [
      .init("calls_under_way", Self.list(snapshot.limit?.calls)),
      .init("callers_waiting", Self.list(snapshot.limit?.waiters)),
    ]
  }

  private static func list(_ all: [LimitSnapshot.Participant]?) -> JSONValue {
    guard let all else { return .null }
    return .array(
      all.map { one in
        .object([
          .init("pid", JSONValue(one.pid.map { Int64($0) })),
          .init("program", JSONValue(one.program)),
          .init("command", JSONValue(one.command)),
          .init("stopped", .bool(one.isStopped)),
          .init("units", .integer(Int64(one.units))),
          .init("background", .bool(one.isBackground)),
          .init("for_ms", JSONValue(milliseconds: one.age)),
          .init("owner_gone", .bool(one.isOwnerGone)),
          .init("absent", .bool(one.isAbsent)),
        ])
      })
  }
}
