import TestSupport

/// What happens in a phase, drawn from the seed and the number of the phase.
struct FleetPlan {
  /// What is done to the server and the relays.
  enum Kind: String, CaseIterable {
    case calm, relays, kills, stops, losses, full, mixed
  }

  var kind: Kind
  var hosts: Int
  var quorum: Int

  /// How many hosts can be sick; with fewer than the quorum, nobody may ever be suspected.
  var sick: Int
  var savesData: Bool
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
    seconds = random.number(5...8)
    self.random = random
  }

  var description: String {
    "\(kind.rawValue), \(hosts) hosts, \(sick) of them sick, \(seconds) s"
      + (savesData ? ", with appendonly" : "")
  }
}
