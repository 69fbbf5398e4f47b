import SharedBreaker
import TestSupport

/// One process trips and resets a breaker; others ask right after each call has returned.
enum Checker {
  /// The answers that contradict a call that had already returned.
  struct Lies {
    /// Calls permitted after a trip.
    var permitted = 0.0

    /// Calls rejected after a reset.
    var rejected = 0.0
  }

  private static func breaker(in room: Room) throws -> Breaker {
    try room.openStore().breaker("tripping", onStoreFailure: .throw)
  }

  /// The word of the page that counts the trips and resets that have returned.
  private static let turn = 0

  static func run(in room: Room, index: Int, trips: Int) throws {
    let breaker = try breaker(in: room)
    let page = try SharedPage(room.file("trips.page"))
    _ = try Parent.awaitStart()
    var lies = Lies()
    for turn in 1...2 * trips {
      _ = try page.wait(for: Self.turn, toReach: turn)
      switch try breaker.decide() {
      case .permitted(let permit):
        permit.succeed()
        if turn % 2 == 1 { lies.permitted += 1 }
      case .rejected: if turn % 2 == 0 { lies.rejected += 1 }
      }
      page[1 + index] = turn
    }
    Parent.report([lies.permitted, lies.rejected])
  }

  static func watch(_ trips: Int, checkers: Int, in room: Room) throws -> Lies {
    let breaker = try breaker(in: room)
    let page = try SharedPage(room.file("trips.page"))
    let children = try (0..<checkers).map {
      try Children.start(.checks, [room.path, "\($0)", "\(trips)"])
    }
    try Children.begin(children)
    for turn in 1...2 * trips {
      if turn % 2 == 1 { try breaker.trip() } else { try breaker.reset() }
      page[Self.turn] = turn
      for index in 0..<checkers { _ = try page.wait(for: 1 + index, toReach: turn) }
    }
    return try children.map { try Children.numbers($0) }.reduce(into: Lies()) { lies, numbers in
      lies.permitted += numbers.first ?? .nan
      lies.rejected += numbers.last ?? .nan
    }
  }
}
