import SharedBreaker

/// What `wait` can wait for: a state, or what a call would meet.
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

  /// How long until time alone can have made it true; nil if time alone cannot.
  func nextLook(at snapshot: BreakerSnapshot) -> Duration? {
    var times = snapshot.leases.map(\.endsIn)
    switch self {
    case .closed, .halfOpen: return nil
    // A probe that takes too long opens the breaker.
    case .open: return snapshot.state == .halfOpen ? times.min() : nil
    case .due, .permitted, .rejected: break
    }
    times += [snapshot.openEndsIn, snapshot.modeEndsIn, snapshot.retryAfter].compactMap { $0 }
    // No event reports that a probe was taken or given back, or that its owner died.
    let isProbed = snapshot.state == .halfOpen || !snapshot.leases.isEmpty
    if isProbed, snapshot.state != .closed { times.append(.seconds(1)) }
    // A time that is over has not made it true, so another one must; zero would mean a busy loop.
    return times.filter { $0 > .zero }.min()
  }
}
