@_spi(Relay) import BreakerCore
import TestSupport

/// A fleet whose hosts decide by the core's own rules, in a time that is only a number.
struct Simulation {
  private let scenario: FleetScenario
  private let policy: BreakerPolicy
  private let quorum: Int?
  private var random: SeededRandom
  private var agenda = Agenda<Event>()
  private var hosts: [Host]
  private var server: SimulatedServer
  private(set) var figures = Figures()

  private struct Host {
    var record = BreakerRecord()

    /// How long a message is under way between the server and this host.
    var lag: Int64

    /// Of the calls that are planned, only those with the latest number take place.
    var plan = 0

    /// When it is going to suspect its breaker, or last was.
    var plansToLookAt = Int64.min

    /// Whether its breaker has been open since it was last closed.
    var hasOpened = false
  }

  private enum Event {
    case call(host: Int, plan: Int)
    case end(host: Int, PermitGrant, isFailure: Bool)
    case look(host: Int)
    case hear(host: Int, from: Int)
    case expire(host: Int)
  }

  private init(_ scenario: FleetScenario, seed: UInt64) {
    self.scenario = scenario
    policy = scenario.policy
    quorum = scenario.quorum?.hosts(ofFleet: scenario.hosts)
    var random = SeededRandom(seed: seed)
    hosts = (0..<scenario.hosts).map { _ in
      Host(lag: Int64.random(in: 200_000...2_000_000, using: &random))
    }
    self.random = random
    server = SimulatedServer(hosts: scenario.hosts)
  }

  static func run(_ scenario: FleetScenario, seed: UInt64 = 1) -> Figures {
    var simulation = Simulation(scenario, seed: seed)
    for host in 0..<scenario.sick {
      if let start = scenario.troubles.first?.lowerBound {
        simulation.planCall(of: host, after: start)
      }
    }
    while let (now, event) = simulation.agenda.next() { simulation.take(event, at: now) }
    simulation.figures.take(simulation.server, scenario: scenario)
    return simulation.figures
  }

  private mutating func take(_ event: Event, at now: Int64) {
    switch event {
    case .call(let host, let plan):
      if hosts[host].plan == plan { call(of: host, at: now) }
    case .end(let host, let grant, let isFailure):
      let outcome: CallOutcome = isFailure ? .failure(CallOutcome.Failure()) : .success
      let part = Double.random(in: 0..<1, using: &random)
      let step = hosts[host].record.reported(
        outcome, for: grant, elapsed: nil, at: moment(now), by: nil, policy: policy, jitter: part)
      told(of: step.events, by: host, at: now)
    case .look(let host): look(host, at: now)
    case .hear(let host, let other):
      let part = Double.random(in: 0..<1, using: &random)
      let step = hosts[host].record.recovered(
        on: "host-\(other)", at: moment(now), policy: policy, part: part)
      if step.answer, let due = hosts[host].record.openUntil {
        planCall(of: host, after: time(due))
      }
    case .expire(let host): server.expire(host, at: now)
    }
  }
}

/// Calls.
extension Simulation {
  private mutating func planCall(of host: Int, after time: Int64) {
    let gap = Int64.random(in: 0...2 * FleetScenario.callGap(of: host), using: &random)
    hosts[host].plan += 1
    agenda.add(.call(host: host, plan: hosts[host].plan), at: time + gap)
  }

  private mutating func call(of host: Int, at now: Int64) {
    let isFailure = scenario.isDown(for: host, at: now)
    let step = hosts[host].record.requested(at: moment(now), by: nil, policy: policy)
    told(of: step.events, by: host, at: now)
    switch step.answer {
    case .permitted(let grant):
      figures.takeCall(at: now, isProbe: grant.kind == .probe, isFailure: isFailure)
      agenda.add(.end(host: host, grant, isFailure: isFailure), at: now + FleetScenario.callTime)
      if !isFailure, grant.kind == .normal {
        // Nothing happens until the host's next trouble.
        if let next = scenario.nextTrouble(of: host, after: now) { planCall(of: host, after: next) }
        return
      }
      planCall(of: host, after: now)
    case .rejected:
      let due = hosts[host].record.openUntil.map { max(now, time($0)) }
      planCall(of: host, after: due ?? now)
    }
  }
}

/// The messages of hosts, sent and received.
extension Simulation {
  private mutating func told(of events: [BreakerEvent], by host: Int, at now: Int64) {
    for event in events {
      guard let to = event.change.stateAfter else { continue }
      if quorum != nil || scenario.spread > 0 { server.takeNote(at: now) }
      figures.takeTransition(of: host, to: to, at: now)
      switch to {
      case .open:
        hosts[host].hasOpened = true
        tellOpening(of: host, at: now)
      case .closed:
        // A host that was only suspected knows of no recovery.
        if hosts[host].hasOpened { tellRecovery(of: host, at: now) }
        hosts[host].hasOpened = false
      case .halfOpen: break
      }
    }
  }

  private func knowsQuorum(_ host: Int, at now: Int64) -> Bool {
    quorum.map { server.others(than: host, at: now - hosts[host].lag) >= $0 } ?? false
  }

  private mutating func tellOpening(of host: Int, at now: Int64) {
    guard policy.fleetQuorum != nil || policy.fleetSpread != nil,
      let until = hosts[host].record.openUntil,
      !(scenario.isSuppressed && knowsQuorum(host, at: now))
    else { return }
    server.takeOpening(of: host, until: time(until), at: now)
    agenda.add(.expire(host: host), at: time(until))
    guard let quorum, server.open >= quorum else { return }
    let spread = policy.suspicionSpread(ofFleet: scenario.hosts).inNanoseconds
    for other in hosts.indices
    where hosts[other].record.state == .closed && hosts[other].plansToLookAt <= now {
      let pause = spread == 0 ? 0 : Int64.random(in: 0..<spread, using: &random)
      hosts[other].plansToLookAt = now + hosts[other].lag + pause
      agenda.add(.look(host: other), at: hosts[other].plansToLookAt)
    }
  }

  private mutating func tellRecovery(of host: Int, at now: Int64) {
    let latest = server.latestRecovery(at: now - hosts[host].lag)
    let isKnown = latest.map { now - $0 < scenario.spread } ?? false
    let isNews = scenario.spread > 0 && !(scenario.isSuppressed && isKnown)
    guard isNews || server.hasTold(host) else { return }
    server.takeRecovery(of: host, at: now)
    guard scenario.spread > 0 else { return }
    for other in hosts.indices where hasLonger(other, than: scenario.spread, at: now) {
      agenda.add(.hear(host: other, from: host), at: now + hosts[other].lag)
    }
  }

  /// Whether a host will not probe by itself as soon as the others.
  private func hasLonger(_ host: Int, than spread: Int64, at now: Int64) -> Bool {
    let record = hosts[host].record
    guard record.state == .open, let until = record.openUntil else { return false }
    return time(until) - now > spread
  }

  private mutating func look(_ host: Int, at now: Int64) {
    guard hosts[host].record.state == .closed, knowsQuorum(host, at: now) else { return }
    let others = server.others(than: host, at: now - hosts[host].lag)
    let step = hosts[host].record.suspected(by: others, at: moment(now), policy: policy)
    guard step.answer else { return }
    figures.suspicions += 1
    told(of: step.events, by: host, at: now)
    planCall(of: host, after: now)
  }
}

/// Time.
extension Simulation {
  /// The host's boot clock; it does not begin at 0.
  private static let boot = 3_600 * FleetScenario.second

  private func moment(_ time: Int64) -> Moment {
    Moment(boot: Instant(nanoseconds: time + Self.boot), wallMilliseconds: time / 1_000_000)
  }

  private func time(_ instant: Instant) -> Int64 { instant.nanoseconds - Self.boot }
}
