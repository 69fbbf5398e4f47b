import Foundation

@testable import BreakerCore

/// The seeds of the random tests: the same seed gives the same numbers.
enum Seed {
  static let fixed: UInt64 = 0x5EED

  /// The seed that the environment gives, to reproduce a failure.
  static let given = ProcessInfo.processInfo.environment["SHARED_BREAKER_SEED"].flatMap {
    UInt64($0)
  }

  /// The given seed alone; without one, some that are always tried and a random one.
  static let all = given.map { [$0] } ?? Array(1...100) + [UInt64.random(in: 1_000...UInt64.max)]
}

struct SplitMix: RandomNumberGenerator {
  var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  /// True once in `count` times on average.
  mutating func oneIn(_ count: Int) -> Bool { Int.random(in: 0..<count, using: &self) == 0 }

  mutating func pick<Element>(_ elements: [Element]) -> Element {
    elements[Int.random(in: 0..<elements.count, using: &self)]
  }
}

/// Valid policies of every shape, with times so short that a walk outlasts them.
enum RandomPolicy {
  static func draw(using random: inout SplitMix) -> BreakerPolicy {
    while true {
      let policy = candidate(using: &random)
      if (try? policy.validate()) != nil { return policy }
    }
  }

  private static func candidate(using random: inout SplitMix) -> BreakerPolicy {
    var policy = BreakerPolicy()
    if random.oneIn(2) { policy.maxFailures = random.pick([1, 2, 3, 5]) }
    if random.oneIn(2) {
      policy.failures = random.pick([1, 2, 3, 4])
      policy.within = .milliseconds(random.pick([10, 50, 100]))
    }
    if random.oneIn(2) { policy.failureRate = random.pick([0.07, 0.25, 0.333_333, 0.5, 1.0]) }
    if random.oneIn(2) { policy.slowAfter = .milliseconds(5) }
    if policy.slowAfter != nil, random.oneIn(2) { policy.slowRate = random.pick([0.2, 0.5, 1.0]) }
    if policy.failureRate != nil || policy.slowRate != nil {
      if random.oneIn(2) { policy.window = .milliseconds(random.pick([40, 100, 200])) }
      if policy.window == nil { policy.last = random.pick([1, 4, 10, 25]) }
      if random.oneIn(2) { policy.minCalls = random.pick([1, 2, 5]) }
    }
    policy.reporters = random.pick([1, 1, 1, 2, 3])
    if random.oneIn(4) { policy.lumping = .milliseconds(random.pick([1, 5, 20])) }
    policy.openFor = .milliseconds(random.pick([1, 20, 50]))
    policy.openMultiplier = random.pick([1, 1.5, 2, 3])
    if policy.openMultiplier > 1 || random.oneIn(2) {
      policy.openMax = .milliseconds(random.pick([50, 75, 300]))
    }
    // Shares that binary fractions hold exactly, so that exact arithmetic gives the same result.
    policy.jitter = random.pick([0.0, 0.0, 0.25, 0.5])
    policy.holdFor = .milliseconds(random.pick([1, 5]))
    policy.holdMax = .milliseconds(random.pick([20, 20_000]))
    if random.oneIn(2) { policy.rampUp = .milliseconds(random.pick([1, 10, 100])) }
    policy.probes = random.pick([1, 2, 3])
    policy.probeTimeout = .milliseconds(random.pick([5, 30, 60]))
    if random.oneIn(2) {
      policy.successesToClose = random.pick([1, 2, 4])
    } else {
      policy.probeCalls = random.pick([1, 3, 6])
      policy.probeFailureRate = random.pick([0.2, 0.5, 0.666_667, 1.0])
    }
    policy.fleetQuorum = random.pick([nil, .hosts(1), .hosts(2), .hosts(3), .share(0.3)])
    policy.fleetSpread = random.pick([nil, .zero, .milliseconds(4), .milliseconds(40)])
    if random.oneIn(3) { (policy.maxConcurrent, policy.lostCalls) = (4, .failure) }
    return policy
  }
}
