@_spi(Relay) package import SharedBreaker

/// A host's knowledge of breakers on other hosts, and the conclusions from it.
///
/// Times are milliseconds of the server's clock.
package struct FleetView: Sendable {
  /// The evidence that a breaker is open on a host.
  package struct Evidence: Sendable, Hashable {
    package var lineage: String
    package var generation: Int64

    /// When the open time on the host ends, and the evidence with it.
    package var until: Int64

    package init(lineage: String, generation: Int64, until: Int64) {
      self.lineage = lineage
      self.generation = generation
      self.until = until
    }
  }

  private let host: String

  /// How many hosts of the fleet were seen recently, including this one.
  package var hostsSeen = 1

  /// Evidence of other hosts, by breaker and host.
  private var evidence: [String: [String: Evidence]] = [:]

  /// How many pieces of evidence that is.
  private var count = 0

  /// When another host last reported a recovery, by breaker.
  private var recoveries: [String: Int64] = [:]

  /// When each other host last sent a signed message that has arrived here.
  private var latest: [String: Int64] = [:]

  /// The evidence of this host that the server has, by breaker.
  package private(set) var told: [String: Evidence] = [:]

  /// A hold of this host as the server has it.
  private struct ToldHold {
    var until: Int64
    var after: Int64
  }

  /// The holds of this host that the others know, by breaker.
  private var toldHolds: [String: ToldHold] = [:]

  package init(host: String) { self.host = host }

  /// How many pieces of evidence are remembered, and of other things that other hosts tell.
  ///
  /// Without a limit, anyone who can write to the server could fill the memory of every host.
  package static let room = 100_000

  /// Why no more is remembered.
  static func isFull(for sender: String) -> Refusal {
    Refusal(.room, host: sender, "\(room) breakers of other hosts are open, which is the limit")
  }
}

/// News from other hosts.
extension FleetView {
  /// Adds evidence that the server keeps.
  ///
  /// - Throws: `Refusal` if too much is known already.
  package mutating func take(
    _ evidence: Evidence, of name: String, from sender: String
  ) throws(Refusal) {
    if sender == host {
      told[name] = evidence
    } else {
      try note(evidence, of: name, from: sender)
    }
  }

  private mutating func note(
    _ piece: Evidence, of name: String, from sender: String
  ) throws(Refusal) {
    if evidence[name]?[sender] == nil {
      guard count < Self.room else { throw Self.isFull(for: sender) }
      count += 1
    }
    evidence[name, default: [:]][sender] = piece
  }

  /// Adds a message from another host about one of its breakers.
  ///
  /// A message that comes twice or out of order changes nothing.
  ///
  /// - Returns: Whether it is news.
  /// - Throws: `Refusal` if too much is known already.
  @discardableResult
  package mutating func take(_ message: FleetMessage, at now: Int64) throws(Refusal) -> Bool {
    if case .command = message.content { return true }
    guard message.host != host else { return true }
    guard !isStale(message, at: now) else { return false }
    if case .hold = message.content { return true }
    let known = evidence[message.name]?[message.host]
    if let known, known.lineage == message.lineage, known.generation > message.generation {
      return true
    }
    switch message.content {
    case .open(let time):
      let piece = Evidence(
        lineage: message.lineage, generation: message.generation,
        until: now + DurationText.milliseconds(time))
      try note(piece, of: message.name, from: message.host)
    case .recovered:
      // Without them, this host reports more recoveries than it needs to.
      if recoveries.count >= Self.room { recoveries = [:] }
      recoveries[message.name] = now
      remove(message.host, from: message.name)
    case .closed: remove(message.host, from: message.name)
    case .hold, .command: break
    }
    return true
  }

  /// The oldest signed message that still counts, in milliseconds.
  private static let longestWay: Int64 = 60_000

  /// Whether a signed message was overtaken by another one of its host, or comes far too late.
  ///
  /// An attacker may have sent it again. Only the latest message of a host holds.
  private mutating func isStale(_ message: FleetMessage, at now: Int64) -> Bool {
    guard let sent = message.sentAt else { return false }
    switch message.content {
    // They tell for how long they count.
    case .open, .hold: break
    case .recovered, .closed, .command: if now - sent > Self.longestWay { return true }
    }
    // If the server's clock was set back, hosts send earlier times than before.
    if let latest = latest[message.host], latest <= now, sent < latest { return true }
    if latest.count >= Self.room { latest = [:] }
    latest[message.host] = sent
    return false
  }

  private mutating func remove(_ sender: String, from name: String) {
    if evidence[name]?.removeValue(forKey: sender) != nil { count -= 1 }
    if evidence[name]?.isEmpty == true { evidence[name] = nil }
  }

  /// Forgets evidence that is out of date.
  package mutating func forgetPast(at now: Int64) {
    for (name, senders) in evidence where senders.contains(where: { $0.value.until <= now }) {
      let rest = senders.filter { $0.value.until > now }
      count -= senders.count - rest.count
      evidence[name] = rest.isEmpty ? nil : rest
    }
    let longest = DurationText.milliseconds(FleetMessage.longestTime)
    recoveries = recoveries.filter { now - $0.value < longest }
  }

  /// The breakers that are open on other hosts.
  package var suspects: [String] { evidence.keys.sorted() }

  /// On how many other hosts a breaker is open.
  package func others(open name: String, at now: Int64) -> Int {
    evidence[name]?.values.count { $0.until > now } ?? 0
  }

  /// On how many other hosts a breaker is open; nil if they are no quorum for its policy.
  package func quorum(for name: String, policy: BreakerPolicy, at now: Int64) -> Int? {
    guard let quorum = policy.fleetQuorum else { return nil }
    let count = others(open: name, at: now)
    return count >= quorum.hosts(ofFleet: hostsSeen) ? count : nil
  }
}

/// Messages of this host.
extension FleetView {
  /// The message about a breaker of this host whose state has changed; nil for none.
  ///
  /// A host does not repeat what others already know, so that an outage of the whole fleet costs
  /// about as many messages as the quorum has hosts.
  package func content(
    for change: LocalChange, of snapshot: BreakerSnapshot?, named name: String, at now: Int64
  ) -> FleetMessage.Content? {
    switch change {
    case .opened:
      guard let snapshot, let time = snapshot.openEndsIn, time > .zero,
        snapshot.policy.concernsFleet
      else { return told[name] == nil ? nil : .closed }
      let isKnown = quorum(for: name, policy: snapshot.policy, at: now) != nil
      return isKnown ? nil : .open(for: time)
    case .recovered:
      if told[name] != nil { return .recovered }
      guard let spread = snapshot?.policy.fleetSpread else { return nil }
      let latest = recoveries[name].map { now - $0 < DurationText.milliseconds(spread) } ?? false
      return latest ? nil : .recovered
    case .closed: return told[name] == nil ? nil : .closed
    }
  }

  /// The generation to tell of a breaker.
  ///
  /// A breaker that was deleted has none, and one that was created again begins with the first. But
  /// other hosts ignore generations before the opening that they know.
  package func generation(of snapshot: BreakerSnapshot?, named name: String) -> Int64 {
    max(snapshot?.generation ?? 0, told[name]?.generation ?? 0)
  }

  /// The message to repeat after an outdated one from this host; nil if the server is up to date.
  ///
  /// A connection that the relay has given up may still deliver messages after those of the next
  /// connection. The message is the last one of this host about the breaker.
  package func correction(of message: FleetMessage, at now: Int64) -> FleetMessage.Content? {
    switch (message.content, told[message.name]) {
    case (.open, nil): return .closed
    case (.recovered, let open?), (.closed, let open?):
      guard open.generation > message.generation, open.until > now else { return nil }
      return .open(for: .milliseconds(open.until - now))
    case (.open, _?), (.recovered, nil), (.closed, nil), (.hold, _), (.command, _): return nil
    }
  }

  /// Forgets which evidence of this host the server has, before it is read again.
  package mutating func forgetTold() {
    told = [:]
    toldHolds = [:]
  }

  /// Notes that the server has a message of this host.
  package mutating func hasTold(_ message: FleetMessage, at now: Int64) {
    if case .hold(let hold) = message.content { return hasTold(hold, of: message.name, at: now) }
    guard case .open(let time) = message.content else {
      told[message.name] = nil
      return
    }
    told[message.name] = Evidence(
      lineage: message.lineage, generation: message.generation,
      until: now + DurationText.milliseconds(time))
  }
}

/// Holds of this host.
extension FleetView {
  /// Whether the other hosts know a hold of this host.
  package func isTold(_ hold: FleetHold, of name: String, at now: Int64) -> Bool {
    guard let told = toldHolds[name], told.after == hold.after else { return false }
    let until = now + DurationText.milliseconds(hold.left)
    return (until - told.until).magnitude <= DurationText.milliseconds(hold.moment)
  }

  /// Notes that the other hosts know a hold of this host.
  package mutating func hasTold(_ hold: FleetHold, of name: String, at now: Int64) {
    let until = now + DurationText.milliseconds(hold.left)
    toldHolds[name] = ToldHold(until: until, after: hold.after)
  }

  /// Whether a hold of another host ends at about the same time as one of this host.
  package static func isAlike(_ other: FleetHold, _ own: FleetHold) -> Bool {
    max(own.left - other.left, other.left - own.left) <= own.moment
  }
}

extension FleetHold {
  /// How much two ends may differ for a hold to be told only once.
  ///
  /// The answers to one burst name ends within a moment, on one host and on many.
  var moment: Duration { min(.seconds(1), left / 10) }
}

/// A change of a breaker of this host that may concern the fleet.
package enum LocalChange: Sendable, Hashable {
  case opened, recovered, closed

  /// The change that an entry of the history means for the fleet; nil if it means none.
  package init?(_ entry: HistoryEntry) {
    switch (entry.change, entry.change.stateAfter) {
    case (.transition(from: .halfOpen, to: .closed), _):
      // A host that only suspected an outage has seen none, so its success is not a recovery.
      self = .recovered
    case (.extended, _), (_, .open):
      // An opening that other hosts have caused is not evidence.
      guard entry.host == nil else { return nil }
      self = .opened
    case (.deletion, _), (_, .closed): self = .closed
    default: return nil
    }
  }
}

extension BreakerPolicy {
  /// Whether hosts tell each other about a breaker with this policy.
  package var concernsFleet: Bool { fleetQuorum != nil || fleetSpread != nil }
}
