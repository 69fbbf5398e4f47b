import BreakerCore

/// The counts of one run of the simulation.
struct Figures {
  private var firstOpen: [Int: Int64] = [:]
  private var lastClosed: [Int: Int64] = [:]
  private var probeTimes: [Int64] = []

  /// Calls that the resource could not serve.
  private(set) var failedCalls = 0
  private(set) var probes = 0
  var suspicions = 0

  private(set) var messages = 0
  private(set) var notes = 0

  /// The messages that the server hands out, one for each host that reads it.
  private(set) var deliveries = 0

  /// The requests to the server in its busiest second.
  private(set) var busiestSecond = 0
  private(set) var end: Int64 = 0

  mutating func takeCall(at now: Int64, isProbe: Bool, isFailure: Bool) {
    if isFailure { failedCalls += 1 }
    if isProbe {
      probes += 1
      probeTimes.append(now)
    }
  }

  mutating func takeTransition(of host: Int, to state: BreakerState, at now: Int64) {
    switch state {
    case .open:
      if firstOpen[host] == nil { firstOpen[host] = now }
      lastClosed[host] = nil
    case .closed: lastClosed[host] = now
    case .halfOpen: break
    }
  }

  mutating func take(_ server: SimulatedServer, scenario: FleetScenario) {
    end = scenario.end
    messages = server.messages.count
    notes = server.notes.count
    deliveries = messages * scenario.hosts
    // A host that reads takes along what has come within the time of a message.
    var requests: [Int64: Int] = [:]
    var lastRead = Int64.min
    for time in server.messages {
      requests[time / FleetScenario.second, default: 0] += 1
      guard lastRead == .min || time - lastRead >= FleetScenario.second / 1_000 else { continue }
      lastRead = time
      requests[time / FleetScenario.second, default: 0] += scenario.hosts
    }
    for time in server.notes { requests[time / FleetScenario.second, default: 0] += 1 }
    busiestSecond = (requests.values.max() ?? 0) + Beat.requestsASecond(of: scenario.hosts)
  }

  var opened: Int { firstOpen.count }

  /// When the last host had its breaker open.
  var allOpen: Int64? { firstOpen.values.max() }

  /// How long after the end of the trouble the last host had its breaker closed again.
  var allClosed: Int64? { lastClosed.values.max().map { $0 - end } }

  /// The most probes that reached the resource in one second after it was back.
  var probesInASecond: Int {
    var most = 0
    var first = 0
    let times = probeTimes.filter { $0 >= end }
    for last in times.indices {
      while times[last] - times[first] >= FleetScenario.second { first += 1 }
      most = max(most, last - first + 1)
    }
    return most
  }
}

/// The load that the relays of an idle fleet put on the server.
enum Beat {
  /// The time between two beats of a host, in nanoseconds.
  static func interval(of hosts: Int) -> Int64 {
    max(FleetScenario.second, Int64(hosts) * FleetScenario.second / 1_000)
  }

  /// How long the server waits for messages before it answers that there are none.
  private static let wait = 5 * FleetScenario.second

  /// A host shows that it is alive with each beat, and asks for messages again after each wait.
  static func requestsASecond(of hosts: Int) -> Int {
    Int(Int64(hosts) * FleetScenario.second / interval(of: hosts))
      + Int(Int64(hosts) * FleetScenario.second / wait)
  }
}
