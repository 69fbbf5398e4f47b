import SharedBreaker

/// Something that is done with a store while its disk fails.
struct FaultScenario: Sendable {
  var name: String

  /// Prepares the store once, without faults; nil if there is no store.
  var prepare: (@Sendable (Play) throws -> Void)?

  /// Runs without faults right before the act, with the store open; nil if the store is not open.
  var ready: (@Sendable (Play) throws -> Void)?

  /// Acts while the disk fails.
  var act: @Sendable (Play) throws -> Void

  /// Whether the act always leaves the same contents; not if tasks run in varying order.
  var isExact = true

  init(
    _ name: String, prepare: (@Sendable (Play) throws -> Void)? = nil,
    ready: (@Sendable (Play) throws -> Void)? = { _ in },
    act: @escaping @Sendable (Play) throws -> Void
  ) {
    self.name = name
    self.prepare = prepare
    self.ready = ready
    self.act = act
  }

  static func named(_ name: String) -> FaultScenario? { all.first { $0.name == name } }

  static let all = opening + calls + probes + operators + looking + listening + upkeep
}

/// Ways to prepare a store.
extension FaultScenario {
  @Sendable static func closed(_ play: Play) throws { try play.declare() }

  @Sendable static func failing(_ play: Play) throws {
    try play.declare()
    try play.fail()
  }

  @Sendable static func open(_ play: Play) throws {
    try play.declare()
    try play.open()
  }

  /// Prepares an open breaker whose open time is over.
  @Sendable static func due(_ play: Play) throws {
    try open(play)
    play.wait(seconds: 30)
  }

  @Sendable static func probing(_ play: Play) throws {
    play.permit = HeldPermit(try play.breaker.acquire())
  }

  /// Prepares a probe that has passed its deadline, which no call has recorded.
  @Sendable static func hanging(_ play: Play) throws {
    try probing(play)
    play.wait(seconds: 31)
  }
}

extension FaultScenario {
  private static let opening = [
    FaultScenario("open-fresh", ready: nil) { try $0.store.connect() },
    FaultScenario("open-existing", prepare: failing, ready: nil) {
      try $0.store.connectToExisting()
    },
    FaultScenario("bring-up-to-date", prepare: { try OlderStore.make($0.path) }, ready: nil) {
      try $0.store.connectToExisting()
    },
    FaultScenario("first-call", prepare: failing, ready: nil) { try $0.succeed() },
    FaultScenario("first-use", ready: nil) { try $0.succeed() },
    // The first call creates the breaker, and its failure is a second transaction.
    FaultScenario("first-failure", prepare: { try $0.succeed() }, ready: nil) { try $0.fail() },
  ]

  private static let calls = [
    FaultScenario("declare", prepare: closed) { try $0.declare(Play.policy, for: "new") },
    FaultScenario("redeclare", prepare: closed) { try $0.declare("max-failures=3") },
    FaultScenario("failure", prepare: closed) { try $0.fail() },
    FaultScenario("success-after-failure", prepare: failing) { try $0.succeed() },
    FaultScenario("trip", prepare: failing) { try $0.fail() },
    FaultScenario(
      "rate", prepare: { try $0.declare("failure-rate=50% window=1m min-calls=2") },
      ready: { try $0.succeed() }, act: { try $0.fail() }),
    FaultScenario(
      "success-after-neighbour", prepare: closed,
      ready: {
        try $0.succeed()
        try $0.other.breaker("neighbour").trip()
      }, act: { try $0.succeed() }),
    FaultScenario("rejection", prepare: open, ready: seen) { try beRejected($0) },
  ]

  /// Prepares a breaker that is known to be open, and a neighbour that has changed since.
  @Sendable static func seen(_ play: Play) throws {
    try beRejected(play)
    try play.other.breaker("neighbour").trip()
  }

  private static func beRejected(_ play: Play) throws {
    do {
      try play.succeed()
    } catch BreakerError.rejected {
      return
    }
    throw Wrong("an open breaker let a call through")
  }

  private static let probes = [
    FaultScenario("probe", prepare: due) { play in
      do throws(BreakerError) {
        play.permit = HeldPermit(try play.breaker.acquire())
      } catch {
        throw Wrong("the only caller was not let through: \(error)")
      }
    },
    FaultScenario("probe-success", prepare: due, ready: probing) { try end($0) { $0.succeed() } },
    FaultScenario("probe-failure", prepare: due, ready: probing) { try end($0) { $0.fail() } },
    FaultScenario("probe-ignored", prepare: due, ready: probing) { try end($0) { $0.ignore() } },
    FaultScenario("probe-renewal", prepare: due, ready: probing) { play in
      play.wait(seconds: 5)
      guard try play.permit?.renew() == true else { throw Wrong("the lease was lost") }
    },
    FaultScenario("hung-probe", prepare: due, ready: hanging) { try beRejected($0) },
    FaultScenario("token", prepare: due) { play in
      _ = try play.breaker.acquireToken()
    },
  ]

  private static func end(_ play: Play, _ report: (consuming Permit) -> ReportVerdict) throws {
    guard let permit = play.permit?.take() else { throw Wrong("there is no permit") }
    _ = report(permit)
  }

  private static let operators = [
    FaultScenario("reset", prepare: open) { try $0.breaker.reset() },
    FaultScenario("force", prepare: closed) { try $0.breaker.force(.forcedOpen, reason: "night") },
    FaultScenario("operator-trip", prepare: closed) { try $0.breaker.trip(reason: "by hand") },
    FaultScenario("policy", prepare: closed) {
      try $0.breaker.overridePolicy(set: [.openFor: "1m"])
    },
    FaultScenario("delete", prepare: open) { _ = try $0.store.delete("api") },
  ]
}
