import BreakerDocuments
import SharedBreaker

/// Everything that is known of one breaker, for `show`.
struct BreakerDetails {
  var snapshot: BreakerSnapshot
  var declarations: [PolicyDeclaration]

  /// Its whole history as far as it is kept, oldest first.
  var history: [HistoryEntry]

  /// When the snapshot was taken.
  var now: BreakerTimestamp

  /// The newest entries, which are shown one by one.
  var recent: [HistoryEntry] { history.suffix(10) }

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
        .init("history", .array(recent.map(EntryDocument.of))),
        .init("timeline", .array(timeline.stretches.map(Self.json))),
        .init("transitions", Self.perState(snapshot.transitions) { .integer($0) }),
        .init("time_in_state_ms", Self.perState(snapshot.timeInStates) { .init(milliseconds: $0) }),
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
        .init(key.rawValue, .string(snapshot.source(of: key).wireName))
      })
  }

  private static func perState<Value>(
    _ values: PerState<Value>, _ json: (Value) -> JSONValue
  ) -> JSONValue {
    .object(BreakerState.allCases.map { .init($0.wireName, json(values[$0])) })
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
