/// A change of a breaker, as its history records it.
///
/// A later version may add cases, so end a `switch` over a change with `default`.
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
public enum BreakerChange: Sendable, Hashable {
  /// The state changed.
  case transition(from: BreakerState, to: BreakerState)

  /// A user or code set another mode, or the time of a mode ran out.
  case mode(from: BreakerMode, to: BreakerMode)

  /// A user or code closed the breaker and cleared its counters.
  case reset(from: BreakerState)

  /// Code declared another policy, or an operator set or removed values; both sides in words.
  case policy(from: String, to: String)

  /// A user or code deleted the breaker.
  case deletion(from: BreakerState)

  /// A probe ended without a report.
  case probe(ProbeEnding)

  /// A user or code tripped a breaker that was open already, which restarted its open time.
  case extended

  /// The state changed because other hosts of the fleet have the breaker open.
  ///
  /// A closed breaker becomes half-open. The probe that follows either closes it again, or opens it.
  case suspicion(from: BreakerState, to: BreakerState)

  /// A probe has succeeded on another host of the fleet, so the open time ends earlier.
  case recovery

  /// Calls began to be held, or are held for much longer, or are held no more.
  case hold(HoldChange)

  /// Something that this version cannot read, because another program has written it.
  case unknown(kind: String, from: String, to: String)

  /// How a probe ended without a report.
  ///
  /// A later version may add cases, so end a `switch` over it with `default`.
  #if hasAttribute(nonexhaustive)
    @nonexhaustive
  #endif
  public enum ProbeEnding: Sendable, Hashable {
    /// It took longer than `probe-timeout`, so it counts as a failure.
    case timedOut

    /// The process that owned it ended, so its slot is free again.
    case lost
  }

  /// A change of a hold.
  ///
  /// A later version may add cases, so end a `switch` over it with `default`.
  #if hasAttribute(nonexhaustive)
    @nonexhaustive
  #endif
  public enum HoldChange: String, Sendable, Hashable, CaseIterable {
    /// The resource works, and has asked to be left alone.
    case began

    /// The time that is left has at least doubled; other extensions leave no trace in the history.
    case prolonged

    /// A call has succeeded or failed since, or a user or code has ended the hold.
    case ended
  }
}

extension BreakerChange {
  /// Whether calls begin to be rejected: a breaker that was closed has opened.
  ///
  /// A failed probe opens a breaker again, but that continues the same outage. A suspicion begins an
  /// outage only when a failed probe has confirmed it. The change does not know the mode: while a
  /// mode lets all calls through, an opening begins no outage.
  public var beginsOutage: Bool {
    self == .transition(from: .closed, to: .open)
      || self == .suspicion(from: .halfOpen, to: .open)
  }

  /// Whether a breaker that was open or half-open has closed, or is gone.
  ///
  /// It can be true without an outage before it: when a breaker that a suspicion has made half-open
  /// is reset or deleted.
  public var endsOutage: Bool {
    switch self {
    case .transition(_, let to): to == .closed
    case .reset(let from), .deletion(let from): from != .closed
    case .mode, .policy, .probe, .extended, .suspicion, .recovery, .hold, .unknown: false
    }
  }
}

extension BreakerChange {
  /// The state after the change; nil if it did not concern the state.
  public var stateAfter: BreakerState? {
    switch self {
    case .transition(_, let to), .suspicion(_, let to): to
    case .reset: .closed
    case .mode, .policy, .deletion, .probe, .extended, .recovery, .hold, .unknown: nil
    }
  }
}

/// The words of a change in JSON and SQL.
extension BreakerChange {
  /// The name of the kind in JSON, such as `transition`.
  public var wireKind: String {
    if case .unknown(let kind, _, _) = self { return kind }
    return kind.wireName
  }

  /// The value before in JSON, such as the state that a transition left.
  public var wireFrom: String {
    switch self {
    case .transition(let from, _), .suspicion(let from, _), .reset(let from), .deletion(let from):
      from.wireName
    case .mode(let from, _): from.wireName
    case .policy(let from, _), .unknown(_, let from, _): from
    case .probe: PermitKind.probe.wireName
    case .extended, .recovery: BreakerState.open.wireName
    case .hold: "hold"
    }
  }

  /// The value after in JSON, such as the state that a transition entered.
  public var wireTo: String {
    switch self {
    case .transition(_, let to), .suspicion(_, let to): to.wireName
    case .mode(_, let to): to.wireName
    case .reset: BreakerState.closed.wireName
    case .policy(_, let to), .unknown(_, _, let to): to
    case .deletion: "deleted"
    case .probe(.timedOut): "timed_out"
    case .probe(.lost): "lost"
    case .extended: "extended"
    case .recovery: "due"
    case .hold(let change): change.rawValue
    }
  }

  /// The kinds of changes.
  ///
  /// The integers are stored in files and the wire names appear in JSON, so neither ever changes.
  package enum Kind: Int, Sendable, Hashable, CaseIterable {
    case transition = 0
    case mode = 1
    case reset = 2
    case policy = 3
    case deletion = 4
    case probe = 5
    case extended = 6
    case recovery = 7
    case suspicion = 8
    case hold = 9

    package var wireName: String {
      switch self {
      case .transition: "transition"
      case .mode: "mode"
      case .reset: "reset"
      case .policy: "policy"
      case .deletion: "deletion"
      case .probe: "probe"
      case .extended: "extension"
      case .recovery: "recovery"
      case .suspicion: "suspicion"
      case .hold: "hold"
      }
    }
  }

  /// The kind of the change; that of an unknown change does not matter, because it is never written.
  package var kind: Kind {
    switch self {
    case .transition, .unknown: .transition
    case .mode: .mode
    case .reset: .reset
    case .policy: .policy
    case .deletion: .deletion
    case .probe: .probe
    case .extended: .extended
    case .recovery: .recovery
    case .suspicion: .suspicion
    case .hold: .hold
    }
  }

  /// Reads a change from the words that were stored; it is unknown if they make no sense.
  package init(kind: Int, from: String, to: String) {
    let known = Kind(rawValue: kind)
    let states = (BreakerState(wireName: from), BreakerState(wireName: to))
    let modes = (BreakerMode(wireName: from), BreakerMode(wireName: to))
    let made: BreakerChange? =
      switch known {
      case .transition:
        states.0.flatMap { from in states.1.map { .transition(from: from, to: $0) } }
      case .mode: modes.0.flatMap { from in modes.1.map { .mode(from: from, to: $0) } }
      case .reset: states.0.map { .reset(from: $0) }
      case .policy: .policy(from: from, to: to)
      case .deletion: states.0.map { .deletion(from: $0) }
      case .probe: [.probe(.timedOut), .probe(.lost)].first { $0.wireTo == to }
      case .extended: .extended
      case .recovery: .recovery
      case .suspicion:
        states.0.flatMap { from in states.1.map { .suspicion(from: from, to: $0) } }
      case .hold: HoldChange(rawValue: to).map { .hold($0) }
      case nil: nil
      }
    self = made ?? .unknown(kind: known?.wireName ?? "unknown", from: from, to: to)
  }
}

extension BreakerChange: CustomStringConvertible {
  /// The change in the words that `cbctl` uses, such as `closed -> open` or `mode: observe`.
  ///
  /// For a policy it has the words that differ, as in `policy: open-for 30s -> 1m, +probes=2`.
  public var description: String {
    if case .transition = self { return words() }
    return "\(wireKind): \(words())"
  }

  /// The change without its kind.
  @_spi(Command) public func words(arrow: String = "->") -> String {
    let (from, to) = (wireFrom, wireTo)
    if case .hold = self { return to }
    if case .policy = self { return PolicyDifference(from: from, to: to).text(arrow: arrow) }
    return from == to || from.isEmpty ? to : "\(from) \(arrow) \(to)"
  }
}
