import SharedBreaker

/// What can be waited for: a state, or what a call would meet.
enum AwaitedState: String, Sendable, CaseIterable {
  case closed, open
  case halfOpen = "half_open"
  case due, permitted, rejected

  func holds(for snapshot: BreakerSnapshot) -> Bool {
    switch self {
    case .closed: snapshot.state == .closed
    case .open: snapshot.state == .open
    case .halfOpen: snapshot.state == .halfOpen
    case .due: snapshot.isNextCallProbe
    case .permitted: snapshot.permits
    case .rejected: !snapshot.permits
    }
  }

  /// How long until it can have come to be so without anything happening in the store; nil for never.
  func nextLook(at snapshot: BreakerSnapshot) -> Duration? {
    var times = snapshot.leases.map(\.endsIn)
    switch self {
    case .closed, .halfOpen: return nil
    // A probe that takes too long opens it.
    case .open: return snapshot.state == .halfOpen ? times.min() : nil
    case .due, .permitted, .rejected: break
    }
    times += [snapshot.openEndsIn, snapshot.modeEndsIn, snapshot.retryAfter].compactMap { $0 }
    // That a probe is taken or handed back, or that its owner has died, is told by nobody.
    let isProbed = snapshot.state == .halfOpen || !snapshot.leases.isEmpty
    if isProbed, snapshot.state != .closed { times.append(.seconds(1)) }
    // What is over but not yet so is at an end of another one; it must not be looked at without rest.
    return times.filter { $0 > .zero }.min()
  }
}
