import TestSupport

/// The course of a phase, drawn from the seed and the number of the phase.
struct LimitPlan {
  /// The faults besides changes of the limit; a short run begins with the most telling kinds.
  enum Kind: String, CaseIterable {
    case mixed, rates, holds, losses, pages, forks, programs, stops, closing, cancellations, kills,
      calm
  }

  /// A fault.
  enum Fault {
    case change(limit: Int)
    case kill, stop
    case losePage(how: Int)
    case hold(milliseconds: Int)
    case changeRate(to: Rate)
  }

  var kind: Kind
  var reserved: Int

  /// How many may wait; fewer than there are callers in some phases.
  var places: Int
  var seconds: Int
  var patienceUnderRate: String
  var losesPages: Bool
  var random: SeededRandom

  /// The limit from which a phase begins.
  static let limit = 4
  static let workers = 15
  static let commanders = 8

  /// The longest hold, and the longer time in which few calls go at once after it, in milliseconds.
  static let longestHold = 300
  static let rampUp = 500

  init(seed: UInt64, number: Int) {
    var random = SeededRandom(seed: seed &+ UInt64(number) &* 0x9E37_79B9)
    kind = Kind.allCases[number % Kind.allCases.count]
    reserved = random.pick([0, 0, 1])
    places = random.pick([12, 200, 200])
    seconds = kind == .pages ? 9 : kind == .rates ? 6 : 4
    patienceUnderRate = random.pick(["1ms", "20ms", "5s"])
    losesPages = random.number(0...3) == 0
    self.random = random
  }

  /// How many calls may begin in each interval of so many milliseconds.
  struct Rate {
    var calls: Int
    var milliseconds: Int

    var text: String { "\(calls)/\(milliseconds)ms" }
  }

  /// Rates that fewer calls want than there are callers, so that all of each can be used.
  static let rates = [
    Rate(calls: 1, milliseconds: 10), Rate(calls: 5, milliseconds: 50),
    Rate(calls: 20, milliseconds: 200), Rate(calls: 60, milliseconds: 400),
  ]

  /// The share of the first attempts that may be sent again, in percent.
  static let retryBudget = 20

  /// How long a caller waits.
  ///
  /// In a copy of the page, calls are under way that no process ends. Of a caller that does not wait for long, it is known
  /// well when its call began.
  var patience: String {
    switch kind {
    case .pages: "5s"
    case .rates: patienceUnderRate
    default: "1m"
    }
  }

  var description: String {
    "\(kind.rawValue), \(reserved) reserved, \(places) places for \(patience), \(seconds) s"
  }

  /// Acts that the workers are told to do now and then.
  var habits: [String] {
    switch kind {
    case .calm, .kills, .losses, .stops: ["nest"]
    // In a new page, the room of an outer call is worth nothing, and calls inside of others are held as well.
    case .pages, .holds: []
    case .rates: ["retry"]
    case .cancellations: ["cancel", "nest"]
    case .forks: ["fork", "nest"]
    case .programs: ["exec", "nest"]
    case .closing: ["close", "nest"]
    case .mixed: ["cancel", "fork", "exec", "close", "nest"]
    }
  }

  mutating func nextFault() -> Fault {
    if random.number(0...5) == 0 { return .change(limit: random.pick([2, 3, 4, 4, 6])) }
    switch kind {
    case .calm, .cancellations, .closing: return .change(limit: random.pick([3, 4, 4, 5]))
    case .stops: return random.number(0...1) == 0 ? .stop : .kill
    case .holds where random.number(0...1) == 0:
      return .hold(milliseconds: random.number(20...Self.longestHold))
    case .holds: return random.number(0...1) == 0 ? .stop : .kill
    case .rates where random.number(0...11) == 0: return .changeRate(to: random.pick(Self.rates))
    case .rates where losesPages && random.number(0...19) == 0:
      return .losePage(how: random.number(0...3))
    case .rates: return random.number(0...1) == 0 ? .stop : .kill
    case .pages where random.number(0...19) == 0: return .losePage(how: random.number(0...3))
    case .mixed where random.number(0...2) == 0: return .stop
    case .kills, .losses, .forks, .programs, .pages, .mixed: return .kill
    }
  }

  /// How long nothing happens until the next fault, in microseconds.
  mutating func nextPause() -> UInt32 { UInt32(random.number(5_000...200_000)) }
}
