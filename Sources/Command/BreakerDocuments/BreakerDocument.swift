@_spi(Command) public import SharedBreaker

/// The JSON documents about breakers; members are only ever added.
public enum BreakerDocument {
  /// The document of `status`, and of every command that changes breakers.
  public static func list(
    _ snapshots: [BreakerSnapshot], _ others: [JSONValue.Member] = []
  ) -> JSONValue {
    list(of: snapshots.map { .object(members(of: $0)) }, others)
  }

  /// The document of breakers that are documents already.
  public static func list(
    of breakers: [JSONValue], _ others: [JSONValue.Member] = []
  ) -> JSONValue {
    .object([.init("breakers", .array(breakers))] + others)
  }

  /// Prints the document of many breakers in pieces, because the whole would fill the memory.
  public static func write(_ snapshots: [BreakerSnapshot], _ print: (String) -> Void) {
    var policies: [BreakerPolicy: JSONValue] = [:]
    var text = Array(#"{"breakers":["#.utf8)
    for (index, snapshot) in snapshots.enumerated() {
      let policy = policies[snapshot.policy] ?? .rendered(policy(snapshot.policy).text)
      policies[snapshot.policy] = policy
      if index > 0 { text.append(UInt8(ascii: ",")) }
      JSONValue.object(members(of: snapshot, policy: policy)).write(to: &text)
      if text.count >= 65_536 {
        print(String(decoding: text, as: UTF8.self))
        text.removeAll(keepingCapacity: true)
      }
    }
    print(String(decoding: text, as: UTF8.self) + "]}\n")
  }

  /// The members of the document about one breaker.
  public static func members(of snapshot: BreakerSnapshot) -> [JSONValue.Member] {
    members(of: snapshot, policy: policy(snapshot.policy))
  }

  private static func members(
    of snapshot: BreakerSnapshot, policy: JSONValue
  ) -> [JSONValue.Member] {
    [
      .init("name", .string(snapshot.name)),
      .init("state", .string(snapshot.state.wireName)),
      .init("mode", .string(snapshot.mode.wireName)),
      .init("mode_reason", JSONValue(snapshot.modeReason)),
      .init("mode_set_by", JSONValue(snapshot.modeSetBy)),
      .init("mode_set_at", time(snapshot.modeSetAt)),
      .init("mode_ends_in_ms", JSONValue(milliseconds: snapshot.modeEndsIn)),
      .init("permitted", .bool(snapshot.permits)),
      .init("hold", hold(snapshot.hold)),
      .init("ramp", ramp(snapshot.ramp)),
      .init("rate", rate(of: snapshot)),
      .init("retries", retries(of: snapshot)),
      .init("probe_due", .bool(snapshot.isProbeDue)),
      .init("probe_successes", .integer(snapshot.probeSuccesses)),
      .init("probe_failures", .integer(snapshot.probeFailures)),
      .init("consecutive_failures", .integer(snapshot.consecutiveFailures)),
      .init("failure_rate", snapshot.failureRate.map { .number($0) } ?? .null),
      .init("window", window(of: snapshot)),
      .init("trips", .integer(snapshot.trips)),
      .init("flapping", .bool(snapshot.isFlapping)),
      .init("probes_in_flight", .integer(snapshot.probesInFlight)),
      .init("limit", limit(of: snapshot)),
      .init("transitions", perState(snapshot.transitions) { .integer($0) }),
      .init("in_state_ms", JSONValue(milliseconds: snapshot.timeInState)),
      .init("time_in_state_ms", timeInStates(of: snapshot)),
      .init("generation", .integer(snapshot.generation)),
      .init("created_at", time(snapshot.createdAt)),
      .init("changed_at", time(snapshot.changedAt)),
      .init("opened_at", time(snapshot.openedAt)),
      .init("open_reason", JSONValue(snapshot.openReason)),
      .init("suspected_at", time(snapshot.suspectedAt)),
      .init("retry_after_ms", JSONValue(milliseconds: snapshot.retryAfter)),
      .init("last_failure_at", time(snapshot.lastFailureAt)),
      .init("last_error", JSONValue(snapshot.lastError)),
      .init("totals", totals(snapshot.totals)),
      .init("policy", policy),
    ]
  }

  /// The times in each state, of which the present one's grows by exactly `in_state_ms`.
  ///
  /// Both are rounded apart, so that a reader who takes one from the other gets a number that never goes
  /// back.
  private static func timeInStates(of snapshot: BreakerSnapshot) -> JSONValue {
    var times = snapshot.timeInStates
    times[snapshot.state] -= snapshot.timeInState
    let present = DurationText.milliseconds(snapshot.timeInState)
    return .object(
      BreakerState.allCases.map { state in
        let before = DurationText.milliseconds(times[state])
        return .init(state.wireName, .integer(state == snapshot.state ? before + present : before))
      })
  }

  private static func perState<Value>(
    _ values: PerState<Value>, _ json: (Value) -> JSONValue
  ) -> JSONValue {
    .object(BreakerState.allCases.map { .init($0.wireName, json(values[$0])) })
  }

  /// An instant in a document.
  public static func time(_ time: BreakerTimestamp?) -> JSONValue { JSONValue(time?.description) }

  private static func window(of snapshot: BreakerSnapshot) -> JSONValue {
    .object([
      .init("calls", .integer(snapshot.windowCalls)),
      .init("failures", .integer(snapshot.windowFailures)),
      .init("slow", .integer(snapshot.windowSlow)),
    ])
  }

  /// The hold of a breaker; null if there is none.
  public static func hold(_ hold: HoldSnapshot?) -> JSONValue {
    guard let hold else { return .null }
    return .object([
      .init("ends_in_ms", JSONValue(milliseconds: hold.endsIn)),
      .init("since", time(hold.since)),
      .init("extensions", .integer(hold.extensions)),
      .init("length_ms", JSONValue(milliseconds: hold.length)),
      .init("asked_for_ms", JSONValue(milliseconds: hold.askedFor)),
      .init("by_hand", .bool(hold.isByHand)),
      .init("reason", JSONValue(hold.reason)),
      .init("set_by", JSONValue(hold.setBy)),
      .init("host", JSONValue(hold.host)),
    ])
  }

  /// The ramp of a breaker; null if there is none.
  private static func ramp(_ ramp: RampSnapshot?) -> JSONValue {
    guard let ramp else { return .null }
    return .object([
      .init("ends_in_ms", JSONValue(milliseconds: ramp.endsIn)),
      .init("units", JSONValue(ramp.unitsPermitted.map { Int64($0) })),
    ])
  }

  /// The rate of a breaker, with nulls for unknown numbers; null if there is none.
  private static func rate(of snapshot: BreakerSnapshot) -> JSONValue {
    guard let rate = snapshot.policy.rate else { return .null }
    return .object([
      .init("calls", .integer(Int64(rate.calls))),
      .init("interval_ms", JSONValue(milliseconds: rate.interval)),
      .init("begun", JSONValue(snapshot.rate.map { Int64($0.begun) })),
      .init("next_in_ms", JSONValue(milliseconds: snapshot.rate?.nextIn)),
    ])
  }

  /// The retries of a breaker, with nulls for unknown numbers; null if it has no budget for them.
  private static func retries(of snapshot: BreakerSnapshot) -> JSONValue {
    guard snapshot.policy.retryBudget != nil else { return .null }
    return .object([
      .init("first_attempts", JSONValue(snapshot.retries?.firstAttempts)),
      .init("sent", JSONValue(snapshot.retries?.sent)),
      .init("permitted", snapshot.retries.map { .bool($0.permitsAnother) } ?? .null),
    ])
  }

  /// The calls under way and the callers that wait, with nulls for unknown numbers and for no limit; null if calls take
  /// no room.
  private static func limit(of snapshot: BreakerSnapshot) -> JSONValue {
    let (units, limit) = (snapshot.policy.maxConcurrent, snapshot.limit)
    if units == nil, limit == nil { return .null }
    return .object([
      .init("units", JSONValue(units.map { Int64($0) })),
      .init("in_use", JSONValue(limit.map { Int64($0.unitsInUse) })),
      .init("waiting", JSONValue(limit.map { Int64($0.waiters.count { !$0.isOwnerGone }) })),
      .init("room", snapshot.hasRoom.map { .bool($0) } ?? .null),
      .init("waits", limit.map { waits($0.waits) } ?? .null),
    ])
  }

  private static func waits(_ waits: LimitSnapshot.Waits) -> JSONValue {
    .object([
      .init("count", .integer(waits.count)),
      .init("total_ms", JSONValue(milliseconds: waits.total)),
      .init("abandoned", .integer(waits.abandoned)),
      .init(
        "buckets",
        .array(
          waits.buckets.map { bucket in
            .object([
              .init("at_most_ms", JSONValue(milliseconds: bucket.atMost)),
              .init("count", .integer(bucket.count)),
            ])
          })),
    ])
  }

  private static func totals(_ totals: BreakerTotals) -> JSONValue {
    .object([
      .init("successes", .integer(totals.successes)),
      .init("failures", .integer(totals.failures)),
      .init("ignored", .integer(totals.ignored)),
      .init("rejections", .integer(totals.rejections)),
      .init("slow", .integer(totals.slow)),
      .init("would_reject", .integer(totals.wouldReject)),
      .init("busy", .integer(totals.busy)),
      .init("holds", .integer(totals.holds)),
      .init("held", .integer(totals.held)),
      .init("ramping", .integer(totals.ramping)),
      .init("over_rate", .integer(totals.overRate)),
      .init("retries", .integer(totals.retries)),
      .init("over_budget", .integer(totals.overBudget)),
      .init("lost_calls", .integer(totals.lostCalls)),
    ])
  }

  /// The policy in force: numbers as numbers, times and rates as `--set` takes them.
  public static func policy(_ policy: BreakerPolicy) -> JSONValue {
    .object(
      PolicyKey.allCases.map { key in
        .init(key.rawValue, value(policy.text(for: key), of: key))
      })
  }

  private static func value(_ text: String?, of key: PolicyKey) -> JSONValue {
    guard let text else { return .null }
    return switch key.value {
    case .count: JSONValue(Int64(text))
    case .factor: Double(text).map { .number($0) } ?? .null
    case .duration, .rate: .string(text)
    case .word, .callRate: .string(text)
    case .countOrRate: Int64(text).map { JSONValue($0) } ?? .string(text)
    @unknown default: .string(text)
    }
  }
}

/// The JSON document about an entry of the history: one line of `history --json`.
public enum EntryDocument {
  /// The document about one entry.
  public static func of(_ entry: HistoryEntry) -> JSONValue {
    .object([
      .init("id", .integer(entry.id)),
      .init("at", BreakerDocument.time(entry.at)),
      .init("name", .string(entry.name)),
      .init("kind", .string(entry.change.wireKind)),
      .init("from", .string(entry.change.wireFrom)),
      .init("to", .string(entry.change.wireTo)),
      .init("reason", JSONValue(entry.reason)),
      .init("by", by(entry)),
      .init("host", JSONValue(entry.host)),
      .init("given_by", givenBy(entry)),
    ])
  }

  private static func by(_ entry: HistoryEntry) -> JSONValue {
    .object([
      .init("pid", .integer(Int64(entry.pid))), .init("program", .string(entry.program)),
      .init("user", JSONValue(entry.user)), .init("command", JSONValue(entry.command)),
    ])
  }

  private static func givenBy(_ entry: HistoryEntry) -> JSONValue {
    guard let giver = entry.giver else { return .null }
    return .object([
      .init("user", JSONValue(giver.verifiedUser)), .init("signed", .bool(giver.isProven)),
      .init("says", .string(giver.said)),
    ])
  }

  /// The process that did something.
  public static func by(_ pid: Int32, _ program: String) -> JSONValue {
    .object([.init("pid", .integer(Int64(pid))), .init("program", .string(program))])
  }
}
