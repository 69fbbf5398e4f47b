@testable import BreakerCore

/// The machine and the naive breaker side by side, taken through the same random steps.
struct RandomWalk {
  var random: SplitMix
  var bench: Bench
  var model: NaiveBreaker
  var permits: [PermitGrant] = []
  var workers = (1...4).map { ProcessIdentity.process($0) }
  var born = 4

  /// How many of a hundred calls fail.
  let failing: Int

  /// One of how many calls is told to wait.
  let holding: Int

  /// In how many of a hundred steps a process ends.
  let ending: Int

  /// The points on which the two disagree after a step.
  var differences: [String] = []

  init(seed: UInt64) {
    random = SplitMix(seed: seed)
    let policy = RandomPolicy.draw(using: &random)
    failing = random.pick([10, 30, 50, 80])
    ending = random.pick([2, 2, 40])
    holding = random.pick([2, 12, 1_000])
    bench = Bench(policy)
    model = NaiveBreaker(policy: policy)
  }

  var now: Int { Int(bench.now.boot.nanoseconds) }

  mutating func step() -> String {
    bench.events = []
    model.arrows = []
    let start = bench.now.boot
    moveClock()
    bench.jitter = random.pick([0, 0.25, 0.5, 0.75])
    let given = NaiveBreaker.Circumstances(now: now, draw: bench.jitter, gone: bench.gone)
    lookTwice(since: start)
    let what = act(given)
    compare("events", bench.events.map(\.arrow), model.arrows)
    compare(bench.record, model)
    return what
  }

  private mutating func compare(_ record: BreakerRecord, _ model: NaiveBreaker) {
    compare("state", record.state, model.state)
    compare("generation", record.generation, model.generation)
    compare("failures", record.consecutiveFailures, model.consecutiveFailures)
    compare("open until", record.openUntil.map { Int($0.nanoseconds) }, model.openUntil)
    compare("leases", record.leases.map(\.id), model.leases.map(\.id))
    compare(
      "deadlines", record.leases.map { Int($0.deadline.nanoseconds) }, model.leases.map(\.deadline))
    compare("usual probe", record.usualProbeNanoseconds.map { Int($0) }, model.usualProbe)
    compare("trips", record.trips, model.trips)
    compare("held until", record.holds.hold.map { Int($0.until.nanoseconds) }, model.hold?.until)
    compare("row of holds", record.holds.hold.map { Int($0.extensions) } ?? 0, model.holdExtensions)
    compare("unnamed", Int(record.holds.unnamed), model.unnamedInRow)
    compare(
      "turn until", record.holds.hold?.turnUntil.map { Int($0.nanoseconds) }, model.turnUntil)
    compare(
      "ramp",
      record.rampUntil.map { [Int($0.nanoseconds), Int(record.rampHeadStart)] }
        .flatMap { $0[0] > now ? $0 : nil } ?? [],
      model.ramp(after: now))
    compare("outages", record.outageTimes.map { Int($0.nanoseconds) }, model.outages)
    compare("totals", record.totals, model.totals)
    compare("mode", record.mode.mode, model.lastMode.mode)
  }

  /// Checks that a look in between does not change what time does.
  private mutating func lookTwice(since start: Instant) {
    let milliseconds = bench.now.boot.since(start) / 1_000_000
    guard milliseconds > 0 else { return }
    let past = Int64.random(in: 0...milliseconds, using: &random)
    let then = bench.now.at(bench.now.boot.advanced(by: -past * 1_000_000))
    let policy = bench.policy
    let once = bench.record.settled(at: bench.now, policy: policy) { _ in false }
    let twice = bench.record.settled(at: then, policy: policy) { _ in false }
      .settled(at: bench.now, policy: policy) { _ in false }
    compare("looked twice", twice, once)
  }

  private mutating func compare<Value: Equatable>(_ name: String, _ real: Value, _ naive: Value) {
    if real != naive { differences.append("\(name): \(real), not \(naive)") }
  }

  private mutating func act(_ given: NaiveBreaker.Circumstances) -> String {
    if Int.random(in: 0..<100, using: &random) < ending { return endProcess() }
    switch Int.random(in: 0..<98, using: &random) {
    case 0..<42: return request(given)
    case 42..<81: return report(given)
    case 81..<84: return renew(given)
    case 84..<88: return look(given)
    case 88..<90: return trip(given)
    case 90..<91:
      bench.reset()
      model.settle(given)
      model.reset(given)
      return "reset"
    case 91..<93: return setMode(given)
    case 93..<94: return hold(given)
    case 94..<96: return hearOfOthers(given)
    default: return changePolicy(given)
    }
  }

  private mutating func request(_ given: NaiveBreaker.Circumstances) -> String {
    let owner = random.pick(workers)
    let foretold = bench.assess()
    let time: Duration? = random.oneIn(8) ? .milliseconds(45) : nil
    let verdict = bench.request(by: owner, probeTimeout: time)
    model.settle(given)
    compare("verdict", verdict, model.request(by: owner, probeTimeout: time, given))
    switch (foretold, verdict) {
    case (.undecided, _): break
    case (.permitted(let grant), _): compare("foretold", verdict, .permitted(grant))
    case (.rejected(let rejection), _): compare("foretold", verdict, .rejected(rejection))
    }
    if case .permitted(let grant) = verdict { permits.append(grant) }
    return "request"
  }

  private mutating func report(_ given: NaiveBreaker.Circumstances) -> String {
    guard !permits.isEmpty else { return request(given) }
    let index = Int.random(in: 0..<permits.count, using: &random)
    let permit = permits[index]
    // Some permits are reported twice, and some are never reported.
    if !random.oneIn(8) { permits.remove(at: index) }
    if random.oneIn(12) { return "permit lost" }
    let outcome = drawOutcome()
    let elapsed: Duration? = random.pick([nil, .milliseconds(4), .milliseconds(5)])
    let reporter = random.pick(workers)
    let isOnlyCounted = bench.record.isOnlyCounted(
      outcome, for: permit, elapsed: elapsed, at: bench.now.boot, policy: bench.policy,
      isWindowElsewhere: false)
    let before = bench.record
    let verdict = bench.report(outcome, for: permit, elapsed: elapsed, by: reporter)
    model.settle(given)
    let naive = model.report(outcome, for: permit, elapsed: elapsed, by: reporter, given)
    compare("verdict", verdict, naive)
    if isOnlyCounted, bench.events.isEmpty, bench.record.leases == before.leases {
      compare("counted only", bench.record.consecutiveFailures, before.consecutiveFailures)
      compare("counted only", bench.record.window, before.window)
      compare("counted only", bench.record.streakStartedAt, before.streakStartedAt)
    }
    return "\(outcome)"
  }

  private mutating func drawOutcome() -> CallOutcome {
    if random.oneIn(12) { return .ignored }
    if random.oneIn(holding) {
      return .hold(
        for: random.pick([nil, nil, .zero, .milliseconds(2), .milliseconds(30), .seconds(3_600)]))
    }
    guard Int.random(in: 0..<100, using: &random) < failing else { return .success }
    if random.oneIn(15) { return .permanentFailure() }
    if random.oneIn(15) {
      return .failure(opensFor: .milliseconds(random.pick([-1, 0, 10, 100_000_000])))
    }
    return .failure()
  }

  private mutating func trip(_ given: NaiveBreaker.Circumstances) -> String {
    let time: Duration? = random.pick([nil, .milliseconds(10)])
    bench.trip(for: time)
    model.settle(given)
    model.trip(for: time, given)
    return "trip"
  }

  private mutating func hearOfOthers(_ given: NaiveBreaker.Circumstances) -> String {
    let hosts = random.pick([1, 2, 3])
    let isSuspicion = random.oneIn(2)
    let hasChanged = isSuspicion ? bench.suspect(by: hosts) : bench.recover()
    model.settle(given)
    let naive = isSuspicion ? model.suspect(by: hosts, given) : model.recover(given)
    compare("heard", hasChanged, naive)
    return isSuspicion ? "suspicion" : "recovery"
  }

  /// A program or an operator holds calls, or ends a hold.
  private mutating func hold(_ given: NaiveBreaker.Circumstances) -> String {
    if random.oneIn(3) {
      let hasEnded = bench.endHold()
      model.settle(given)
      compare("ended", hasEnded, model.endHoldByHand(given))
      return "end of hold"
    }
    let time: Duration = .milliseconds(random.pick([0, 3, 50, 40_000]))
    let isOperators = random.oneIn(2)
    bench.hold(for: time, by: isOperators ? .operator("ann") : .program("app"))
    model.settle(given)
    model.holdBack(model.nanoseconds(time), permit: nil, isOperators: isOperators, given)
    return "hold"
  }

  private mutating func setMode(_ given: NaiveBreaker.Circumstances) -> String {
    let mode = random.pick(BreakerMode.allCases)
    let time: Duration? = random.pick([.milliseconds(1), .milliseconds(30), .zero, nil])
    bench.set(mode, for: time)
    model.settle(given)
    model.set(mode, for: time, given)
    return "mode \(mode.wireName)"
  }

  private mutating func renew(_ given: NaiveBreaker.Circumstances) -> String {
    guard let permit = permits.last(where: { $0.kind == .probe }) else { return look(given) }
    let time: Duration? = random.pick([nil, .milliseconds(1), .milliseconds(40)])
    let isHeld = bench.renew(permit, for: time)
    model.settle(given)
    compare("renewal", isHeld, model.renew(permit, for: time, given))
    return "renewal"
  }

  /// Compares what a caller that only asks sees; asking changes nothing.
  private mutating func look(_ given: NaiveBreaker.Circumstances) -> String {
    var model = model
    model.settle(given)
    compare(bench.look, model)
    return "look"
  }

  private mutating func endProcess() -> String {
    // Often the one that probes, so that probes are lost one after the other.
    let prober = bench.record.leases.last?.owner.flatMap { workers.firstIndex(of: $0) }
    let index =
      random.oneIn(4) ? Int.random(in: 0..<workers.count, using: &random) : prober ?? 0
    bench.gone.insert(workers[index])
    born += 1
    workers[index] = .process(born)
    return "process gone"
  }

  /// Changes how the breaker probes, as an operator may even while it is probing.
  private mutating func changePolicy(_ given: NaiveBreaker.Circumstances) -> String {
    bench.settle()
    model.settle(given)
    bench.policy.probes = random.pick([1, 2, 3])
    if bench.policy.probeCalls != nil { bench.policy.probeCalls = random.pick([1, 3, 6]) }
    model.policy = bench.policy
    return "policy"
  }
}

extension RandomWalk {
  /// Moves the clock on, often to an instant at which something changes or just beside it.
  private mutating func moveClock() {
    var target = now + 1
    switch Int.random(in: 0..<10, using: &random) {
    case 0..<4: target += Int.random(in: 0...1_000_000, using: &random)
    case 4: target += Int.random(in: 0...60_000_000, using: &random)
    case 5..<9:
      let edges = edges.filter { $0 > now }
      if !edges.isEmpty { target = max(target, random.pick(edges) + random.pick([-1, 0, 0, 1])) }
    default: break
    }
    bench.advance(by: .nanoseconds(target - now))
  }

  private var edges: [Int] {
    var edges = model.leases.map(\.deadline)
    edges += [
      model.openUntil, model.lastMode.until, model.hold?.until, model.ramp(after: now).first,
    ].compactMap { $0 }
    if let last = model.calls.last?.call.at {
      for time in [bench.policy.lumping, bench.policy.within].compactMap({ $0 }) {
        edges.append(last + model.nanoseconds(time))
      }
    }
    if let length = bench.policy.window {
      let width = model.nanoseconds(length) / 10
      edges.append((now / width + 1) * width)
      edges.append((now / width + 9) * width)
    }
    for case .closed(let at) in model.facts.suffix(20) {
      let trips = model.tripsInARow(at: at)
      if trips > 0 { edges.append(at + model.plainOpenTime(trips - 1)) }
    }
    return edges
  }
}
