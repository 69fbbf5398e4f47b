import BreakerDocuments
@_spi(Command) import SharedBreaker

extension CommandSpec {
  static let check = CommandSpec(
    name: "check",
    summary: "check whether a call would be permitted now",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, summary: "the breaker")],
    details: [
      "The exit code is the answer: 0 if a call would be permitted, 75 if it would be rejected. "
        + "The command takes no permit and changes nothing.",
      "A breaker with max-concurrent or a rate, or in a ramp, would reject a call too if there is no room for it now, "
        + "whether or not the policy lets it wait. If nobody knows what is under way, the answer is that of "
        + "the breaker's state and mode.",
      "Inside of 'cbctl run' of the same breaker, a call needs no room of its own.",
    ],
    examples: [
      Example(
        "cbctl check payments --quiet; [ $? -eq 75 ] && exit 0",
        "skip a job while calls are rejected: only 75 means that")
    ],
    exitCodes: [.done, .usage, .noBreaker, .storeUnavailable, .rejected],
    meanings: [.done: "a call is permitted"]
  ) { context, parsed throws(ControlError) in
    let outlook = try context.outlook(of: parsed.text("NAME") ?? "")
    let (snapshot, isFree) = (outlook.snapshot, outlook.isFree)
    if context.global.isJSON {
      let cause = snapshot.rejection?.cause ?? outlook.obstacle ?? .busy
      let retryAfter = isFree ? nil : snapshot.retryAfter ?? snapshot.timeOfRoom(cause)
      context.print(
        .object([
          .init("permitted", .bool(isFree)),
          .init("state", .string(snapshot.state.wireName)),
          .init("retry_after_ms", JSONValue(milliseconds: retryAfter)),
          .init("cause", isFree ? .null : .string(cause.rawValue)),
          .init("open_reason", JSONValue(snapshot.openReason)),
          .init("hold", BreakerDocument.hold(snapshot.hold)),
          .init("mode", .string(snapshot.mode.wireName)),
          .init("mode_reason", JSONValue(snapshot.modeReason)),
          .init("mode_set_by", JSONValue(snapshot.modeSetBy)),
          .init("mode_set_at", BreakerDocument.time(snapshot.modeSetAt)),
        ]))
    } else if !context.global.isQuiet {
      let place = isFree && outlook.isInside ? " inside of another call" : ""
      let answer = isFree ? "permitted" : "rejected"
      context.print("\(answer)\(place): \(StateLine.words(of: snapshot))\n")
    }
    return isFree ? .done : .exit(.rejected)
  }
}

extension CommandSpec {
  static let wait = CommandSpec(
    name: "wait",
    summary: "wait until a breaker reaches a state",
    arguments: [ArgumentSpec(label: "NAME", kind: .name, summary: "the breaker")],
    options: [
      OptionSpec(
        name: "state", kind: .choice(AwaitedState.allCases.map(\.rawValue)),
        need: "it says what to wait for", summary: "the state to wait for"),
      OptionSpec(name: "timeout", kind: .duration, summary: "give up after D, with exit code 1"),
    ],
    details: [
      "Returns at once if the breaker is already in that state, and otherwise as soon as any process "
        + "brings it there. Until then the command sleeps; it makes no call and changes nothing. "
        + "The start or end of a probe does not wake it, so while a probe may be under way, it may "
        + "notice a change up to a second late.",
      "closed, open and half_open are the breaker's state. permitted and rejected are what would "
        + "happen to a call now, whatever the mode, if there is room for it. due means that the next call is a probe: time "
        + "alone makes an open breaker due, but only that call makes it half_open.",
      "free means that a call would be permitted now and that max-concurrent, a ramp and a rate leave room for it. Nothing "
        + "wakes the command when a call ends, so it looks four times a second. The room is not kept: "
        + "'cbctl run' takes its place in the queue, and keeps its room while its command runs.",
    ],
    examples: [
      Example(
        "cbctl wait payments --state closed --timeout 10m && ./settle",
        "continue when the resource is back"),
      Example(
        "cbctl wait payments --state rejected; ./page-somebody",
        "alert somebody when calls are rejected"),
    ],
    exitCodes: [.done, .failed, .usage, .noBreaker, .storeUnavailable],
    meanings: [.done: "the breaker is in that state", .failed: "the wait timed out"]
  ) { context, parsed throws(ControlError) in
    let name = parsed.text("NAME") ?? ""
    let state = parsed.text("state").flatMap { AwaitedState(rawValue: $0) } ?? .closed
    let snapshot = try context.wait(
      for: state, of: name, atMost: parsed.duration("timeout"))
    if context.global.isJSON {
      context.print(BreakerDocument.list([snapshot]))
    } else if !context.global.isQuiet {
      context.print(StateLine.text(of: snapshot) + "\n")
    }
    return .done
  }
}

extension CommandContext {
  fileprivate func wait(
    for state: AwaitedState, of name: String, atMost timeout: Duration?
  ) throws(ControlError) -> BreakerSnapshot {
    try connectToExisting()
    let end = timeout.map { ContinuousClock.now + $0 }
    // Listening begins before the first look, so that no change is missed between the two.
    let news = try news(of: name)
    while true {
      let outlook = try outlook(of: name)
      let snapshot = outlook.snapshot
      if state.holds(for: outlook) { return snapshot }
      let left = end.map { $0 - ContinuousClock.now }
      if let left, left <= .zero {
        throw ControlError(
          .failed,
          "\(VisibleText.quoted(name)) is not \(state.rawValue) after "
            + SpokenDuration.format(timeout ?? .zero),
          StateLine.words(of: snapshot), "wait longer, or run 'cbctl show'")
      }
      let look = state.nextLook(at: snapshot)
      _ = DescriptorPoll(descriptors: [news.descriptor]).wait(
        atMost: [left, look, news.longestWait].compactMap { $0 }.min())
      _ = news.take()
    }
  }

  /// Begins to listen for changes from now on.
  func news(of name: String?) throws(ControlError) -> HistoryNews {
    if let news = HistoryNews(of: store, name: name) { return news }
    throw ControlError(
      .failed, "cannot wait", "this process has no file descriptor left", "raise 'ulimit -n'")
  }

  /// Says that the store cannot be read, or can be read again, so that no reader mistakes silence
  /// for calm.
  func tell(_ turn: HistoryNews.Turn?) {
    switch turn {
    case nil: break
    case .unreadable(let error): complain("\(error): waiting for the store")
    case .readable: complain("the store can be read again")
    }
  }
}

extension CommandContext {
  fileprivate func outlook(of name: String) throws(ControlError) -> CallOutlook {
    let snapshot = try snapshot(of: name)
    let isInside = try act { () throws(BreakerError) in try store.breaker(name).isInsideOfCall }
    return CallOutlook(snapshot: snapshot, isInside: isInside)
  }
}

extension BreakerSnapshot {
  /// When there may be room, as far as that is known.
  fileprivate func timeOfRoom(_ cause: RejectionCause) -> Duration? {
    let next = rate?.nextIn ?? .zero
    return switch cause {
    case .ramping: max(ramp?.endsIn ?? .zero, next)
    default: next > .zero ? next : nil
    }
  }
}

/// The answer that a call of this process would get.
struct CallOutlook: Sendable {
  var snapshot: BreakerSnapshot

  /// Whether this process is inside of a call of the breaker that has room.
  var isInside = false

  /// Whether the call would be permitted if there were room for it.
  var isPermitted: Bool {
    snapshot.permits
      || isInside && snapshot.rejection?.cause == .held && snapshot.hold?.endsIn == .zero
  }

  /// The bound that would turn the call away if it does not wait; nil if none would, or if that is not known.
  ///
  /// A call inside of another one uses its room, but has a turn of its own under a rate.
  var obstacle: RejectionCause? {
    guard isInside, let cause = snapshot.causeWithoutRoom else { return snapshot.causeWithoutRoom }
    return cause == .rate || snapshot.rate.map { $0.nextIn > .zero } == true ? .rate : nil
  }

  /// Whether the call would be permitted now, without waiting.
  var isFree: Bool { isPermitted && obstacle == nil }
}

/// A state that `wait` can wait for: one of the breaker, or the answer that a call would get.
enum AwaitedState: String, Sendable, CaseIterable {
  case closed, open
  case halfOpen = "half_open"
  case due, permitted, rejected, free

  /// How often to look whether a limit has room, which no event reports.
  private static let looksForRoom = Duration.milliseconds(250)

  func holds(for outlook: CallOutlook) -> Bool {
    let snapshot = outlook.snapshot
    return switch self {
    case .closed: snapshot.state == .closed
    case .open: snapshot.state == .open
    case .halfOpen: snapshot.state == .halfOpen
    case .due: snapshot.isNextCallProbe
    case .permitted: outlook.isPermitted
    case .rejected: !outlook.isPermitted
    case .free: outlook.isFree
    }
  }

  /// How long until time alone can have brought the state about; nil if it cannot.
  func nextLook(at snapshot: BreakerSnapshot) -> Duration? {
    var times = snapshot.leases.map(\.endsIn)
    switch self {
    case .closed, .halfOpen: return nil
    // A probe that takes too long opens the breaker.
    case .open: return snapshot.state == .halfOpen ? times.min() : nil
    case .free: if snapshot.permits { return Self.looksForRoom }
    case .due, .permitted, .rejected: break
    }
    times += [snapshot.openEndsIn, snapshot.modeEndsIn, snapshot.retryAfter].compactMap { $0 }
    // No event reports that a probe was taken or given back, or that its owner died.
    let isProbed = snapshot.state == .halfOpen || !snapshot.leases.isEmpty
    let isFirstAwaited = snapshot.hold != nil && !snapshot.leases.isEmpty
    if isProbed, snapshot.state != .closed || isFirstAwaited { times.append(.seconds(1)) }
    // A time that is over has not brought the state about; looking again at once would be a busy loop.
    return times.filter { $0 > .zero }.min()
  }
}
