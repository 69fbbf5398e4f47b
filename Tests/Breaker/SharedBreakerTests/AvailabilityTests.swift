import BreakerStore
import Testing

@testable import SharedBreaker

/// When a process uses its store, goes on without it, and tries it again.
@Suite struct AvailabilityTests {
  private static let second: Int64 = 1_000_000_000
  private let gone = StoreError(.inputOutput, "the disk is gone")
  private let full = StoreError(.tooManyBreakers, "there is no room")

  /// The kind of a turn, in a word.
  private func word(_ turn: Availability.Turn) -> String {
    switch turn {
    case .use: "use"
    case .tryAgain: "try"
    case .goWithout: "without"
    }
  }

  @Test func `a store that failed is tried once a second by one call`() {
    var availability = Availability()
    #expect(word(availability.turn(at: 0)) == "use")
    _ = availability.failed(gone, at: 5)
    let times = [5, Self.second + 4, Self.second + 5, Self.second + 6, 2 * Self.second + 5]
    #expect(
      times.map { word(availability.turn(at: $0)) }
        == ["without", "without", "try", "without", "try"])
    _ = availability.recovered()
    #expect(word(availability.turn(at: 0)) == "use")
  }

  @Test func `an attempt that took long is followed by a longer pause, which has a limit`() {
    for (cost, pause) in [
      (0, Self.second), (Self.second / 100, Self.second), (Self.second / 20, 5 * Self.second),
      (Self.second / 2, 10 * Self.second), (20 * Self.second, 10 * Self.second),
    ] as [(Int64, Int64)] {
      var availability = Availability()
      // The first failure of an outage cost the promised time.
      _ = availability.failed(gone, at: Self.second / 2)
      let start = 3 * Self.second / 2
      #expect(word(availability.turn(at: start)) == "try")
      let end = start + cost
      _ = availability.failed(gone, at: end)
      #expect(word(availability.turn(at: end + pause - 1)) == "without", "\(cost)")
      #expect(word(availability.turn(at: end + pause)) == "try", "\(cost)")
    }
  }

  @Test func `a failure and a recovery are each told once`() {
    var availability = Availability()
    #expect(availability.recovered() == nil)
    #expect(availability.failed(gone, at: 0) == .unavailable(gone))
    #expect(availability.failed(full, at: 1) == nil)
    #expect(availability.health == .unavailable(full))
    #expect(availability.recovered() == .available)
    #expect(availability.recovered() == nil)
    #expect(availability.health == .connected)
  }

  @Test func `a store that was read is connected unless it has failed since`() {
    var availability = Availability()
    #expect(availability.health == .untried)
    availability.hasConnected()
    #expect(availability.health == .connected)
    _ = availability.failed(gone, at: 0)
    availability.hasConnected()
    #expect(availability.health == .unavailable(gone))
  }

  @Test func `all breakers without room share one attempt a second`() {
    var availability = Availability()
    let cells = ["a", "b"].map { Cell(name: $0) }
    #expect(availability.hasNoRoom(for: cells[0], full, at: 0) == .notShared(name: "a", full))
    #expect(availability.hasNoRoom(for: cells[0], full, at: 0) == nil)
    #expect(availability.hasNoRoom(for: cells[1], full, at: 7) == .notShared(name: "b", full))
    #expect(availability.areSomeAlone)
    #expect(availability.namesAlone.sorted() == ["a", "b"])
    #expect(availability.nextTry(of: cells[0]) == Self.second + 7)
    let turns = cells.map { word(availability.turn(of: $0, at: Self.second + 7)) }
    #expect(turns == ["try", "without"])
    availability.hasRoom(for: cells[0])
    #expect(word(availability.turn(of: cells[0], at: Self.second + 8)) == "use")
    // There may be room for the other one too.
    #expect(word(availability.turn(of: cells[1], at: Self.second + 8)) == "try")
  }

  @Test func `a store that is gone matters more than whether it has room`() {
    var availability = Availability()
    let cell = Cell(name: "a")
    _ = availability.hasNoRoom(for: cell, full, at: 0)
    _ = availability.failed(gone, at: 3 * Self.second)
    #expect(availability.nextTry(of: cell) == 4 * Self.second)
  }
}
