import TestSupport

/// The course of one phase, drawn from its seed.
///
/// The choices are the same each time; the order of the acts of the processes is not.
struct Plan: Sendable {
  /// A fault that happens during a phase.
  enum Fault: Sendable {
    case kill(worker: Int)
    case stop(worker: Int, milliseconds: Int)

    /// From now on, a number of calls in a thousand to a resource fail.
    case sicken(breaker: Int, permille: Int)
    case deleteCounters
    case deleteFile(withLog: Bool)
    case replaceFile(withLog: Bool)
    case fillDisk(milliseconds: Int)
    case advance(milliseconds: Int)
    case moveWall(days: Int)
  }

  /// The faults of a phase besides killed workers and failing resources.
  enum Kind: String, CaseIterable, Sendable {
    /// Nothing is lost, and no process waits for longer than its timeout.
    case calm
    case stops
    case clock
    case counters
    case disk
    case files

    /// Commanders delete breakers.
    case deletions

    /// Workers fork while their other threads continue.
    case forks

    /// Workers are stopped, counters deleted and disks filled in one phase.
    case mixed

    /// Whether the file and its breakers stay the same.
    var isContinuous: Bool { self != .files && self != .deletions }

    /// Whether the counters are never lost, so that each success must be counted.
    var keepsCounters: Bool {
      [.calm, .stops, .clock, .forks].contains(self)
    }

    /// Whether no process has to wait for the store for longer than its timeout.
    var keepsNobodyWaiting: Bool { [.calm, .forks, .deletions].contains(self) }

    /// Whether it needs a file system of its own.
    var fillsDisk: Bool { self == .disk || self == .mixed }
  }

  var seed: UInt64
  var number: Int
  var kind: Kind
  var policy: PlannedPolicy

  /// The number of threads of each worker.
  var workers: [Int]
  var commanders: Int
  var breakers: [String]
  var milliseconds: Int

  /// Whether all processes start on an empty directory.
  var isColdStart: Bool

  /// Whether workers trip and reset breakers.
  var hasOperators: Bool
  var faults: [(at: Int, fault: Fault)]

  /// A description of the phase in one line.
  var description: String {
    "\(kind.rawValue)\(isColdStart ? ", cold start" : "")\(hasOperators ? ", operators" : ""),"
      + " \(workers.count) workers of \(workers.reduce(0, +)) threads, \(commanders) commanders,"
      + " \(breakers.count) breakers, \(policy.words)"
  }

  /// Draws a phase; the same number of the same seed is the same phase.
  init(seed: UInt64, number: Int, mayFillDisks: Bool) {
    self.seed = seed
    self.number = number
    var random = SeededRandom(seed: seed &* 1_000_003 &+ UInt64(number))
    // Each kind in turn, so that a short run includes all of them.
    var kind = Kind.allCases[number % Kind.allCases.count]
    if kind.fillsDisk, !mayFillDisks { kind = .stops }
    self.kind = kind
    policy = PlannedPolicy(&random, isSlow: kind == .clock)
    workers = (0..<random.number(3...9)).map { _ in random.pick([1, 1, 2, 3]) }
    commanders = random.number(1...3)
    breakers = ["api", "mail", "disk"].prefix(random.number(1...3)).map { $0 }
    milliseconds = random.number(2_000...6_000)
    isColdStart = random.number(0...3) == 0
    hasOperators = random.number(0...1) == 0
    faults = []
    faults = Self.draw(&random, for: self)
  }

  private static func draw(_ random: inout SeededRandom, for plan: Plan) -> [(Int, Fault)] {
    var faults: [(Int, Fault)] = plan.breakers.indices.map { breaker in
      (0, .sicken(breaker: breaker, permille: random.pick([0, 300, 1_000])))
    }
    var time = 0
    while true {
      time += random.number(20...200)
      guard time < plan.milliseconds else { return faults }
      faults.append((time, fault(&random, for: plan)))
    }
  }

  private static func fault(_ random: inout SeededRandom, for plan: Plan) -> Fault {
    let worker = random.number(0...plan.workers.count - 1)
    switch random.number(0...9) {
    case 0...2:
      return .kill(worker: worker)
    case 3...5:
      let breaker = random.number(0...plan.breakers.count - 1)
      return .sicken(breaker: breaker, permille: random.pick([0, 20, 200, 600, 1_000, 1_000]))
    default: break
    }
    let isWithLog = random.number(0...1) == 0
    switch plan.kind {
    case .calm, .deletions, .forks: return .kill(worker: worker)
    case .stops: return .stop(worker: worker, milliseconds: random.number(5...900))
    case .counters: return .deleteCounters
    case .disk: return .fillDisk(milliseconds: random.number(20...1_500))
    case .clock where random.number(0...5) == 0: return .moveWall(days: random.number(-400...400))
    case .clock: return .advance(milliseconds: random.number(1...10_000))
    case .files where random.number(0...3) == 0:
      return .stop(worker: worker, milliseconds: random.number(5...900))
    case .files where random.number(0...2) == 0: return .replaceFile(withLog: isWithLog)
    case .files: return .deleteFile(withLog: isWithLog)
    case .mixed:
      return random.pick([
        .stop(worker: worker, milliseconds: random.number(5...900)), .deleteCounters,
        .fillDisk(milliseconds: random.number(20...800)),
      ])
    }
  }
}

/// The policy of a phase, in words that both the library and the command line accept.
struct PlannedPolicy: Sendable {
  /// The words, `KEY=VALUE`, separated by spaces.
  var words: String
  var probes: Int
  var probeTimeoutMilliseconds: Int

  /// The longest time that a breaker stays open, unless a trip or a failure names a longer one.
  var longestOpenMilliseconds: Int

  /// Draws a policy; if `isSlow`, times are for a moved clock and a hundred times as long.
  init(_ random: inout SeededRandom, isSlow: Bool) {
    let scale = isSlow ? 100 : 1
    let openFor = random.number(30...150) * scale
    probes = random.pick([1, 1, 1, 2, 3])
    probeTimeoutMilliseconds = random.number(60...300) * scale
    let multiplier = random.pick(["1", "1", "2"])
    longestOpenMilliseconds = 400 * scale
    words =
      Self.condition(&random, scale: scale)
      + " open-for=\(openFor)ms open-multiplier=\(multiplier)"
      + " open-max=\(longestOpenMilliseconds)ms jitter=\(random.pick(["0%", "20%"]))"
      + " probes=\(probes) successes-to-close=\(random.number(1...3))"
      + " probe-timeout=\(probeTimeoutMilliseconds)ms"
  }

  private static func condition(_ random: inout SeededRandom, scale: Int) -> String {
    switch random.number(0...5) {
    case 0: "max-failures=\(random.number(1...8))"
    // Hardly ever met, so that there are as many transactions as possible.
    case 5: "max-failures=\(random.pick([50, 5_000]))"
    case 1: "failures=\(random.number(2...10)) within=\(random.number(100...2_000) * scale)ms"
    case 2:
      "failure-rate=\(random.number(5...60))% window=\(random.number(200...3_000) * scale)ms"
        + " min-calls=\(random.number(1...20))"
    case 3: "failure-rate=\(random.number(5...60))% last=\(random.number(10...200))"
    default: "slow-rate=\(random.number(10...60))% slow-after=50ms last=\(random.number(10...100))"
    }
  }
}
