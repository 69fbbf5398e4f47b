import BreakerCore
import BreakerStore
import Glibc
import SharedBreaker
import TestSupport
import Testing

/// Calls that wait for their turns on a descriptor, as event loops do.
@Suite(.timeLimit(.minutes(60))) struct SharedTurnTests {
  private let stage: Stage
  private let store: SharedStore
  private let breaker: Breaker

  init() throws {
    stage = try Stage()
    store = stage.sharedStore()
    breaker = try store.breaker(
      "gpu",
      policy: BreakerPolicy(maxFailures: 1000, maxConcurrent: 1, queueTimeout: .seconds(36_000)))
    try breaker.run {}
  }

  private func turn(of breaker: Breaker) throws -> CallTurn {
    guard case .waits(let turn)? = try breaker.beginTurn(mayWait: true) else {
      Issue.record("there was no need to wait")
      throw CancellationError()
    }
    return turn
  }

  private func isReadable(_ turn: CallTurn, within milliseconds: Int32 = -1) -> Bool {
    guard let descriptor = turn.descriptor else { return false }
    var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return unsafe poll(&event, 1, milliseconds) == 1
  }

  /// Waits for a turn as an event loop does.
  private func result(of turn: CallTurn) throws -> Decision<Ticket> {
    while true {
      #expect(isReadable(turn))
      switch try turn.take(mayWait: true) {
      case .decided(let decision): return decision
      case .waits: continue
      case .hasToWait, .isOver:
        Issue.record("it could have waited")
        throw CancellationError()
      }
    }
  }

  private func permit(of turn: CallTurn) throws -> Ticket? {
    guard case .permitted(let permit) = try result(of: turn) else { return nil }
    return permit
  }

  @Test func `a turn comes when room is given back, and not before`() throws {
    let permit = try breaker.acquire().shared()
    let turn = try turn(of: breaker)
    #expect(!isReadable(turn, within: 0))
    guard case .waits = try turn.take(mayWait: false) else {
      Issue.record("it was decided too early")
      return
    }
    permit.succeed()
    let mine = try #require(try self.permit(of: turn))
    #expect(mine.hasRoom)
    #expect(!isReadable(turn, within: 0))
    guard case .isOver = try turn.take(mayWait: true) else {
      Issue.record("it was decided twice")
      return
    }
    #expect(breaker.leave(mine, .success, elapsed: nil, mayWait: true) == .counted)
    #expect(breaker.snapshot().limit?.unitsInUse == 0)
  }

  @Test func `a turn that is given up leaves its place, or the room that it has got`() throws {
    let permit = try breaker.acquire().shared()
    let (first, second) = (try turn(of: breaker), try turn(of: breaker))
    #expect(breaker.snapshot().limit?.waiters.count == 2)
    first.end()
    #expect(breaker.snapshot().limit?.waiters.count == 1)
    #expect(first.descriptor == nil)
    permit.succeed()
    #expect(isReadable(second))
    #expect(breaker.snapshot().limit?.unitsInUse == 1)
    second.end()
    #expect(breaker.snapshot().limit?.unitsInUse == 0)
    try breaker.acquire().succeed()
  }

  @Test func `a waiter keeps its place while others change the breaker and change it back`()
    throws
  {
    let other = stage.sharedStore()
    let theirs = try other.breaker("gpu")
    try theirs.run {}
    let permit = try breaker.acquire().shared()
    let first = try turn(of: breaker)
    let last = try turn(of: theirs)
    for _ in 0..<20 {
      try theirs.force(.forcedClosed)
      try theirs.force(.automatic)
      try breaker.force(.forcedClosed)
      try breaker.force(.automatic)
    }
    #expect(breaker.snapshot().limit?.waiters.count == 2)
    permit.succeed()
    let mine = try #require(try self.permit(of: first))
    #expect(mine.hasRoom && !isReadable(last, within: 0))
    _ = breaker.leave(mine, .success, elapsed: nil, mayWait: true)
    let theirPermit = try #require(try self.permit(of: last))
    _ = theirs.leave(theirPermit, .success, elapsed: nil, mayWait: true)
    other.close()
  }

  @Test
  func `an opening rejects a waiter, which leaves the use of the file to a thread that may wait`()
    throws
  {
    let other = stage.sharedStore()
    let theirs = try other.breaker("gpu")
    try theirs.run {}
    let permit = try breaker.acquire().shared()
    let turn = try turn(of: breaker)
    try theirs.trip()
    #expect(isReadable(turn))
    switch try turn.take(mayWait: false) {
    case .decided(.rejected(let rejection)): #expect(rejection.cause == .open)
    case .hasToWait:
      guard case .rejected(let rejection) = try result(now: turn) else {
        Issue.record("an open breaker permitted a call")
        return
      }
      #expect(rejection.cause == .open)
    case .decided(.permitted), .waits, .isOver: Issue.record("an open breaker permitted a call")
    }
    permit.ignore()
    other.close()
  }

  private func result(now turn: CallTurn) throws -> Decision<Ticket>? {
    guard case .decided(let decision) = try turn.take(mayWait: true) else { return nil }
    return decision
  }

  @Test(arguments: [false, true])
  func `a turn is what it was if its wait for the store is ended early`(hasRoom: Bool) throws {
    let permit = try breaker.acquire().shared()
    let turn = try turn(of: breaker)
    if hasRoom {
      permit.succeed()
      #expect(isReadable(turn))
    }
    try breaker.trip()
    #expect(isReadable(turn))
    permit.ignore()
    stage.clock.advance(by: .seconds(60))
    // The call becomes a probe, which has to be written.
    var holder: Holder? = try Holder(stage.store, "BEGIN IMMEDIATE")
    unsafe Patience.ask({ _ in 1 }, nil)
    for _ in 0..<2 {
      #expect(throws: BreakerError.self) { try turn.take(mayWait: true) }
      #expect(Patience.wasInterrupted && isReadable(turn, within: 0))
    }
    unsafe Patience.ask(nil, nil)
    #expect(breaker.snapshot().limit?.unitsInUse == (hasRoom ? 1 : 0))
    withExtendedLifetime(holder) {}
    holder = nil
    let probe = try #require(try self.permit(of: turn))
    #expect(probe.hasRoom && breaker.state == .halfOpen)
    _ = breaker.leave(probe, .success, elapsed: nil, mayWait: true)
    #expect(breaker.snapshot().limit?.unitsInUse == 0)
  }

  @Test func `a store that is closed ends the turns`() throws {
    let permit = try breaker.acquire().shared()
    let turn = try turn(of: breaker)
    store.endWaits()
    #expect(isReadable(turn))
    guard case .rejected(let rejection) = try result(of: turn) else {
      Issue.record("a closed store permitted a call")
      return
    }
    #expect(rejection.cause == .busy)
    permit.succeed()
  }
}
