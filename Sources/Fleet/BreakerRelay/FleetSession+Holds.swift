@_spi(Relay) internal import SharedBreaker

/// Holds: each host tells those that it was told itself.
extension FleetSession {
  /// How often a relay looks at breakers that are held, because the history does not tell each prolongation.
  private static let holdPace = Duration.milliseconds(500)

  /// Tells the holds of this host that the others do not know.
  func tellHolds() throws(RelayTrouble) {
    let began = ContinuousClock.now
    let now = now
    var messages: [FleetMessage] = []
    for name in held.sorted() {
      let snapshot = try snapshot(of: name)
      guard let snapshot, let hold = snapshot.hold, snapshot.policy.fleetHold else {
        held.remove(name)
        continue
      }
      guard let own = try own(hold, of: name), !view.isTold(own, of: name, at: now) else {
        continue
      }
      messages.append(
        FleetMessage(
          .hold(own), name: name, host: context.options.host, lineage: lineage,
          generation: snapshot.generation))
    }
    // Many of them do not take all of the relay's time.
    let pace = max(Self.holdPace, (ContinuousClock.now - began) * 10)
    nextHoldLook = held.isEmpty ? nil : .now + pace
    guard !messages.isEmpty else { return }
    try server.tell(messages, at: now)
    for message in messages { view.hasTold(message, at: now) }
    context.onStep(.toldEvidence)
  }

  /// A hold as this host tells it; nil if it is over, or if another host has told it: times that were passed on would
  /// creep.
  private func own(_ hold: HoldSnapshot, of name: String) throws(RelayTrouble) -> FleetHold? {
    guard hold.host == nil, hold.endsIn > .zero else { return nil }
    let known = try Self.stored { () throws(StoreError) in
      try context.store.fleetCommands(to: name)
    }
    let ends = known.filter(\.command.action.endsHolds)
    // Both are rounded together, so that their sum is what the resource asked for.
    let left = DurationText.milliseconds(hold.endsIn)
    let age = max(0, DurationText.milliseconds(hold.length) - left)
    return FleetHold(
      left: .milliseconds(left), age: .milliseconds(age),
      after: ends.map(\.command.stamp).max() ?? 0, reason: hold.reason)
  }

  /// Whether a hold of another host may change the breaker of this one.
  func awaits(_ hold: FleetHold, of name: String, on host: String) throws(RelayTrouble) -> Bool {
    let snapshot = try snapshot(of: name)
    guard let snapshot, snapshot.policy.fleetHold else { return false }
    guard let known = snapshot.hold else { return true }
    if let own = try own(known, of: name), FleetView.isAlike(hold, own) {
      // The others know it from that host.
      view.hasTold(own, of: name, at: now)
    }
    // A hold that is read again seems to end a little earlier or later.
    if known.host == host, known.endsIn > .zero, hold.left - known.endsIn <= hold.moment {
      return false
    }
    return hold.left > known.endsIn
  }
}

extension FleetState {
  /// The holds of other hosts, as news.
  func news(ofHoldsExceptOn host: String) -> [FleetNews] {
    holds.filter { $0.host != host }.map { .hold(name: $0.name, host: $0.host, $0.2) }
  }
}
