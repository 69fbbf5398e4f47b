import BreakerStore
import FaultShim
import SharedBreaker
import TestSupport

/// A store whose disk fails, and the view that another process has of it.
final class Play {
  static let policy = "max-failures=2 open-for=30s jitter=0% probe-timeout=10s"

  let path: String
  let clock: HandClock
  let told = Told()
  let store: SharedStore
  let other: SharedStore
  let breaker: Breaker
  var permit: HeldPermit?

  /// The number of failed operations, if the act itself has disarmed the fault.
  var struck = 0

  init(in directory: String, clock: HandClock) throws {
    path = directory + "/state/breakers.db"
    self.clock = clock
    let told = told
    store = SharedStore(
      path: path,
      options: StoreOptions(
        lockTimeout: .milliseconds(20), program: "player", clock: clock.clock,
        observer: { told.add($0) }))
    other = SharedStore(
      path: path,
      options: StoreOptions(
        lockTimeout: .seconds(60), program: "other", clock: clock.clock,
        observer: { told.addOther($0) }))
    breaker = try store.breaker("api")
  }

  func declare(_ words: String = Play.policy, for name: String = "api") throws {
    let policy = try Self.policy(words)
    _ = try store.breaker(name, policy: policy)
  }

  static func policy(_ words: String) throws -> BreakerPolicy {
    var policy = BreakerPolicy()
    for word in words.split(separator: " ") {
      let parts = word.split(separator: "=").map { String($0) }
      guard parts.count == 2, let key = PolicyKey(rawValue: parts[0]) else {
        throw SupportError("no policy word '\(word)'")
      }
      try policy.set(key, to: parts[1])
    }
    return policy
  }

  /// Makes a call that succeeds, and checks that its result comes back unchanged.
  func succeed() throws {
    var runs = 0
    let value = try breaker.run {
      runs += 1
      return 42
    }
    guard value == 42, runs == 1 else { throw Wrong("the work gave \(value) in \(runs) runs") }
  }

  /// Makes a call that fails, and checks that its error comes back unchanged.
  func fail() throws {
    do {
      try breaker.run { throw Boom() }
      throw Wrong("the work's error was lost")
    } catch is Boom {}
  }

  /// Makes calls fail until the breaker opens.
  func open() throws {
    try fail()
    try fail()
  }

  func wait(seconds: Int64) { clock.time += seconds * 1_000_000_000 }

  var isUnavailable: Bool {
    if case .unavailable = store.health { true } else { false }
  }
}

struct Boom: Error {}

/// Something that must never happen.
struct Wrong: Error, CustomStringConvertible {
  var description: String

  init(_ description: String) { self.description = description }
}

/// A box for a permit, which may be taken out once.
final class HeldPermit {
  private var permit: Permit?

  init(_ permit: consuming Permit) { self.permit = consume permit }

  func take() -> Permit? { permit.take() }

  func renew() throws -> Bool { try permit?.renew() ?? false }
}

/// The events that observers have received.
final class Told: Sendable {
  private let state = Guarded((own: [String](), others: 0))

  func add(_ event: StoreEvent) {
    let word =
      switch event {
      case .unavailable: "unavailable"
      case .available: "available"
      case .notDurable: "not-durable"
      case .transition(_, let from, let to, _): "\(from)>\(to)"
      case .transitionAlone(_, let from, let to, _): "alone \(from)>\(to)"
      case .policyDiffers: "policy-differs"
      case .hookGaveUp: "gave-up"
      case .rejected: "rejected"
      case .notShared: "not-shared"
      }
    state.withLock { $0.own.append(word) }
  }

  func addOther(_ event: StoreEvent) {
    if case .unavailable = event { state.withLock { $0.others += 1 } }
  }

  var own: [String] { state.withLock(\.own) }

  /// Whether the observer was notified of each loss and each return of the store exactly once, in
  /// turn, up to the present state.
  func agrees(withLost isLost: Bool) -> Bool {
    let told = own.filter { ["unavailable", "available"].contains($0) }
    let alternating = told.indices.allSatisfy { (told[$0] == "unavailable") == ($0 % 2 == 0) }
    return alternating && (told.last == "unavailable") == isLost
  }

  /// How often the other process could not use the store.
  var others: Int { state.withLock(\.others) }
}
