/// The messages that the server receives, and their cost for it.
///
/// Every host sees the messages in one order, only a little later, so one view of them stands for
/// the views of all hosts.
struct SimulatedServer {
  private var until: [Int64]
  private var tellers: Set<Int> = []

  /// How many hosts are known to have the breaker open.
  private(set) var open = 0
  private var counts: [(at: Int64, open: Int)] = [(.min, 0)]
  private var latestRecovery = Int64.min
  private var hadRecovery = Int64.min

  private(set) var messages: [Int64] = []
  private(set) var notes: [Int64] = []

  init(hosts: Int) { until = Array(repeating: .min, count: hosts) }

  mutating func takeOpening(of host: Int, until end: Int64, at now: Int64) {
    messages.append(now)
    tellers.insert(host)
    if until[host] <= now { change(by: 1, at: now) }
    until[host] = end
  }

  mutating func takeRecovery(of host: Int, at now: Int64) {
    messages.append(now)
    tellers.remove(host)
    (hadRecovery, latestRecovery) = (latestRecovery, now)
    withdraw(host, at: now)
  }

  /// A host writes down how its breaker stands, for `cbctl fleet status`.
  mutating func takeNote(at now: Int64) { notes.append(now) }

  mutating func expire(_ host: Int, at now: Int64) {
    if until[host] == now { withdraw(host, at: now) }
  }

  private mutating func withdraw(_ host: Int, at now: Int64) {
    guard until[host] != .min else { return }
    until[host] = .min
    change(by: -1, at: now)
  }

  private mutating func change(by difference: Int, at now: Int64) {
    open += difference
    counts.append((now, open))
  }

  /// Whether a host has told that it is open, and not that it no longer is.
  func hasTold(_ host: Int) -> Bool { tellers.contains(host) }

  /// How many other hosts are known to have the breaker open, by messages up to an instant.
  func others(than host: Int, at time: Int64) -> Int {
    let known = counts.last { $0.at <= time }?.open ?? 0
    return known - (until[host] == .min ? 0 : 1)
  }

  /// When a recovery was last told of, by messages up to an instant.
  func latestRecovery(at time: Int64) -> Int64? {
    [latestRecovery, hadRecovery].first { $0 <= time && $0 != .min }
  }
}
