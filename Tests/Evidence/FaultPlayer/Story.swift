import SharedBreaker

/// The acts of a process with a store, one transaction after the other, until the power is cut.
struct Story: Sendable {
  var name: String

  /// Prepares the store; nil if there is none.
  var prepare: (@Sendable (Play) throws -> Void)?
  var steps: [Step]

  struct Step: Sendable {
    /// Whether the step adds to the history, so that it must survive a power cut once it has
    /// returned.
    var isLasting: Bool
    var act: @Sendable (Play) throws -> Void
  }

  private static func passing(_ act: @escaping @Sendable (Play) throws -> Void) -> Step {
    Step(isLasting: false, act: act)
  }

  private static func lasting(_ act: @escaping @Sendable (Play) throws -> Void) -> Step {
    Step(isLasting: true, act: act)
  }

  static func named(_ name: String) -> Story? { all.first { $0.name == name } }

  static let all = [
    Story(
      name: "a-new-store",
      steps: [
        passing { try $0.store.connect() },
        passing(FaultScenario.closed),
        passing { try $0.fail() },
        lasting { try $0.fail() },
        passing { $0.wait(seconds: 30) },
        lasting { play in play.permit = HeldPermit(try play.breaker.acquire()) },
        lasting { _ = $0.permit?.take()?.succeed() },
      ]),
    Story(name: "first-use", steps: [lasting { try $0.breaker.trip() }]),
    Story(
      name: "a-life", prepare: FaultScenario.failing,
      steps: [
        passing { try $0.store.connect() },
        lasting { try $0.fail() },
        lasting { try $0.breaker.reset(reason: "by hand") },
        passing { try $0.fail() },
        passing { try $0.succeed() },
        lasting { try $0.breaker.force(.forcedClosed, reason: "night") },
        lasting { try $0.breaker.overridePolicy(set: [.openFor: "1m"]) },
        passing { try $0.declare(for: "second") },
        lasting { try $0.store.breaker("second").trip() },
        lasting { _ = try $0.store.delete("api") },
        passing { try $0.succeed() },
        passing { try $0.fail() },
        lasting { try $0.breaker.trip() },
      ]),
    Story(
      name: "a-checkpoint", prepare: FaultScenario.withLongLog,
      steps: [
        passing { try $0.store.connect() },
        lasting { try $0.breaker.trip() },
        lasting { try $0.breaker.reset() },
        passing { try $0.fail() },
        lasting { try $0.fail() },
        lasting { try $0.store.breaker("second").trip() },
      ]),
  ]
}
