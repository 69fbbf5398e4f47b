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
    switch self {
    case .closed, .open, .halfOpen: return nil
    case .due, .permitted, .rejected: break
    }
    var times = [snapshot.openEndsIn, snapshot.modeEndsIn, snapshot.retryAfter].compactMap { $0 }
    times += snapshot.leases.map(\.endsIn)
    // That a probe is taken or handed back, or that its owner has died, is told by nobody.
    if snapshot.state == .halfOpen { times.append(.seconds(1)) }
    // What is over but not yet so is at an end of another one; it must not be looked at without rest.
    return times.filter { $0 > .zero }.min()
  }
}
