internal import BreakerStore

/// Whether the store can be used, by all breakers and by each, and when it is tried again.
///
/// A value without effects, which the engine guards. Its functions return the events to report.
struct Availability {
  private(set) var health = StoreHealth.untried

  /// When a store that failed is tried again, on the coarse clock.
  private var nextAttempt: Int64 = 0

  /// When the attempt that is under way began.
  private var attempt: Int64?

  /// The breakers that the store has no room for, while it can be used for all others.
  private var lone: [ObjectIdentifier: (name: String, error: StoreError)] = [:]

  /// When the store is asked for room again, once for all of them together.
  private var nextRoom = Int64.min

  /// The shortest and the longest pause before a store that failed is tried again, in nanoseconds.
  private static let pause: Int64 = 1_000_000_000
  private static let longestPause: Int64 = 10_000_000_000

  /// How many nanoseconds of pause follow an attempt for each nanosecond that it took.
  ///
  /// An attempt waits for other processes for 10 ms at most, but a file system can delay it for
  /// longer. Then no call should pay for that once a second.
  private static let pauseOfCost: Int64 = 100

  /// Whether a call uses the store, tries it again, or goes on without it.
  enum Turn {
    case use

    /// The store failed, and this call tries it again; all others go on without it meanwhile.
    case tryAgain
    case goWithout(StoreError)
  }
}

/// The store as a whole.
extension Availability {
  var isAvailable: Bool { if case .unavailable = health { false } else { true } }

  /// The turn of the next call, which has not taken it yet.
  func nextTurn(at now: Int64) -> Turn {
    guard case .unavailable(let error) = health else { return .use }
    return now >= nextAttempt ? .tryAgain : .goWithout(error)
  }

  mutating func turn(at now: Int64) -> Turn {
    let turn = nextTurn(at: now)
    if case .tryAgain = turn {
      nextAttempt = now + Self.pause
      attempt = now
    }
    return turn
  }

  /// Gives back a turn that was taken at an instant, because the caller's wait was ended early, so that the next one tries.
  mutating func giveTurnBack(of start: Int64) {
    guard attempt == start else { return }
    nextAttempt = start
    attempt = nil
  }

  /// Leaves the store alone: for a second after the first failure, and after an attempt to come back
  /// for a time that depends on how long it took.
  mutating func failed(_ error: StoreError, at now: Int64) -> StoreEvent? {
    defer { health = .unavailable(error) }
    let cost = now - (attempt ?? now)
    attempt = nil
    nextAttempt = now + min(max(Self.pause, cost * Self.pauseOfCost), Self.longestPause)
    return isAvailable ? .unavailable(error) : nil
  }

  mutating func recovered() -> StoreEvent? {
    defer { health = .connected }
    attempt = nil
    return isAvailable ? nil : .available
  }

  /// Notes that the store has been read or written.
  mutating func hasConnected() { if health == .untried { health = .connected } }
}

/// Breakers that the store has no room for.
extension Availability {
  var areSomeAlone: Bool { !lone.isEmpty }

  var namesAlone: [String] { lone.values.map(\.name) }

  /// Why a breaker goes on in this process alone; nil if it does not.
  func reasonAlone(_ cell: Cell) -> StoreError? { lone[ObjectIdentifier(cell)]?.error }

  /// When a call of a breaker will try the store again, on the coarse clock.
  func nextTry(of cell: Cell) -> Int64 {
    isAvailable && reasonAlone(cell) != nil ? nextRoom : nextAttempt
  }

  /// The turn of the next call of a breaker, which has not taken it yet.
  func nextTurn(of cell: Cell, at now: Int64) -> Turn {
    guard let error = reasonAlone(cell) else { return .use }
    return now >= nextRoom ? .tryAgain : .goWithout(error)
  }

  mutating func turn(of cell: Cell, at now: Int64) -> Turn {
    let turn = nextTurn(of: cell, at: now)
    if case .tryAgain = turn { nextRoom = now + Self.pause }
    return turn
  }

  mutating func hasNoRoom(for cell: Cell, _ error: StoreError, at now: Int64) -> StoreEvent? {
    let earlier = lone.updateValue((cell.name, error), forKey: ObjectIdentifier(cell))
    nextRoom = now + Self.pause
    return earlier == nil ? .notShared(name: cell.name, error) : nil
  }

  mutating func hasRoom(for cell: Cell) {
    lone[ObjectIdentifier(cell)] = nil
    // There may be room for more.
    nextRoom = .min
  }
}
