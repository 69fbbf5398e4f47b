import BreakerCore
import SharedBreaker
import TestSupport
import Testing

@testable import BreakerStore

/// Waits of a thread that share a bound, or that are ended early.
@Suite struct EarlyEndTests {
  private static let day: Int64 = 86_400_000_000_000

  @Test func `a bound within a bound holds no longer than the outer one`() {
    let now = Patience.monotonicNanoseconds()
    Patience.bounded(by: now + Self.day) {
      Patience.bounded(by: now + 2 * Self.day) { #expect(Patience.end == now + Self.day) }
      Patience.bounded(by: now + 1) {
        #expect(Patience.end == now + 1)
        #expect(!Patience.pause(until: now + Self.day))
        // Code that is not ours has nothing to do with it.
        Patience.unbounded { #expect(Patience.end == .max) }
        #expect(Patience.end == now + 1)
      }
      #expect(Patience.end == now + Self.day)
      #expect(Patience.pause(1...1, until: now + Self.day))
    }
    #expect(Patience.end == .max)
    #expect(!Patience.wasInterrupted)
  }

  @Test func `a wait that was ended early is distinguished from one that ran out`() {
    let deadline = Patience.monotonicNanoseconds() + Self.day
    let ending = Ending()
    #expect(Patience.pause(1...1, until: deadline))
    ending.isOver = true
    Patience.bounded(by: deadline) {
      #expect(!Patience.wasInterrupted)
      #expect(!Patience.pause(until: deadline))
      #expect(Patience.wasInterrupted)
    }
    // The next use of the store starts from scratch.
    Patience.bounded(by: deadline) { #expect(!Patience.wasInterrupted) }
    ending.isOver = false
    #expect(Patience.pause(1...1, until: deadline))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a call whose wait is ended early has changed nothing`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    let breaker = try store.breaker("api", policy: BreakerPolicy(maxFailures: 9))
    try breaker.run {}
    guard case .permitted(let permit)? = try breaker.enter(mayWait: true) else {
      Issue.record("a closed breaker permits no call")
      return
    }
    let ending = Ending()
    var holder: Holder? = try Holder(stage.store, "BEGIN IMMEDIATE")
    ending.isOver = true
    let failure = CallOutcome.failure(error: "refused")
    #expect(breaker.leave(permit, failure, elapsed: nil, mayWait: true) == nil)
    let error = #expect(throws: BreakerError.self) { try breaker.trip() }
    guard case .store(let reason)? = error, reason.isInterrupted else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(store.health == .connected)
    #expect(holder != nil)
    holder = nil
    ending.isOver = false
    #expect(breaker.leave(permit, failure, elapsed: nil, mayWait: true) == .counted)
    #expect(breaker.snapshot().totals.failures == 1)
    #expect(breaker.state == .closed)
  }
}

/// Ends the waits of this thread while it is set, and lets it wait again when it is released.
@safe private final class Ending {
  private let word: UnsafeMutablePointer<Int32>

  init() {
    unsafe word = .allocate(capacity: 1)
    unsafe word.initialize(to: 0)
    unsafe Patience.ask(nil, word)
  }

  deinit {
    unsafe Patience.ask(nil, nil)
    unsafe word.deallocate()
  }

  var isOver: Bool {
    get { unsafe word.pointee != 0 }
    set { unsafe word.pointee = newValue ? 1 : 0 }
  }
}
