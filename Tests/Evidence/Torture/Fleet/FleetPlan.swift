import TestSupport

/// The course of a phase, drawn from the seed and the number of the phase.
struct FleetPlan {
  /// The faults of the server and the relays.
  enum Kind: String, CaseIterable {
    case calm, relays, kills, stops, losses, full, partitions, forgeries, mixed
  }

  var kind: Kind
  var hosts: Int
  var quorum: Int

  /// How many hosts can be sick; with fewer than the quorum, no host may ever be suspected.
  var sick: Int
  var savesData: Bool

  /// Whether the fleet has a key; a forger without one is then no operator.
  var isSigned: Bool

  /// By how many seconds the clock of each host is wrong.
  var skews: [Int]
  var seconds: Int
  var random: SeededRandom

  static let breakers = ["api", "db"]

  init(seed: UInt64, number: Int) {
    var random = SeededRandom(seed: seed &+ UInt64(number) &* 0x9E37_79B9)
    kind = Kind.allCases[number % Kind.allCases.count]
    hosts = random.number(3...5)
    quorum = 2
    sick = random.pick([1, hosts])
    savesData = random.number(0...1) == 0
    isSigned = kind == .forgeries || random.number(0...1) == 0
    let isSkewed = random.number(0...1) == 0
    skews = (0..<hosts).map { _ in
      isSkewed ? random.pick([0, -3_600, -90, -5, 2, 60, 600, 3_600]) : 0
    }
    seconds = random.number(5...8)
    self.random = random
  }

  var description: String {
    "\(kind.rawValue), \(hosts) hosts, \(sick) of them sick, \(seconds) s"
      + (savesData ? ", with appendonly" : "") + (isSigned ? ", with a key" : "")
      + (skews.contains { $0 != 0 } ? ", clocks off by \(skews) s" : "")
  }
}
