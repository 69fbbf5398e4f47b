import BreakerCore
import BreakerStore
import TestSupport
import Testing

/// A window by its definition: every call of every process, with its instant.
private struct NaiveWindow {
  /// The length of the window, in nanoseconds or in calls.
  enum Shape {
    case time(Int64)
    case last(Int)
  }

  let shape: Shape
  let percent: Int
  let minCalls: Int
  var calls: [(at: Int64, isFailure: Bool)] = []
  var isOpen = false

  var policy: String {
    let shape =
      switch shape {
      case .time(let length): "window=\(length / 1_000_000)ms"
      case .last(let count): "last=\(count)"
      }
    return "failure-rate=\(percent)% \(shape) min-calls=\(minCalls) open-for=1h"
  }

  func counts(at now: Int64) -> (calls: Int, failures: Int) {
    let counted =
      switch shape {
      case .time(let length): calls[...].filter { $0.at / (length / 10) > now / (length / 10) - 10 }
      case .last(let count): Array(calls.suffix(count))
      }
    return (counted.count, counted.count { $0.isFailure })
  }

  mutating func add(isFailure: Bool, at now: Int64) {
    calls.append((now, isFailure))
    guard isFailure else { return }
    let (count, failures) = counts(at: now)
    if count >= minCalls, failures * 100 >= percent * count {
      isOpen = true
      calls = []
    }
  }
}

/// A window over the calls of several processes, against a naive model.
@Suite struct WindowModelTests {
  private static let seeds =
    (1...UInt64(max(4, rounds(200)))).map { $0 } + [.random(in: 1_000 ... .max)]

  private func window(_ random: inout SeededRandom) -> NaiveWindow {
    let length = random.pick([10, 30, 50, 100, 250, 1_000, 7_770, 60_000, 3_600_000])
    let count = random.number(1...30)
    let isTime = random.number(0...2) > 0
    return NaiveWindow(
      shape: isTime ? .time(Int64(length) * 1_000_000) : .last(count),
      percent: random.pick([1, 10, 34, 50, 100]),
      minCalls: isTime ? random.number(1...60) : random.number(1...count))
  }

  @Test(.timeLimit(.minutes(60)), arguments: seeds)
  func `a shared window opens the breaker at exactly the right call`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let stage = try Stage()
    var naive = window(&random)
    let puppets = try stage.puppets(3, naive.policy)
    var trips = 0
    for step in 0..<150 {
      let comment: Comment = "seed \(seed), step \(step), \(naive.policy)"
      let puppet = random.pick(puppets)
      let now = stage.clock.clock.instant.nanoseconds
      switch random.number(0...9) {
      case 0...3:
        let count = random.number(1...15)
        try #require(try puppet.ask("successes \(count)") == "ok \(count) rejected 0", comment)
        for _ in 0..<count { naive.add(isFailure: false, at: now) }
      case 4...5:
        try #require(try puppet.ask("run fail") == "failed", comment)
        naive.add(isFailure: true, at: now)
      default:
        let length = if case .time(let length) = naive.shape { length } else { Int64(1_000) }
        let part = random.pick([length / 100, length / 10, length / 10 - 1, length / 3, length * 2])
        stage.clock.advance(by: .nanoseconds(part))
      }
      let seen = try random.pick(puppets).ask("state")
      try #require(seen == (naive.isOpen ? "open" : "closed"), comment)
      if naive.isOpen {
        trips += 1
        naive.isOpen = false
        try #require(try random.pick(puppets).ask("reset") == "ok", comment)
      }
      let (calls, failures) = naive.counts(at: stage.clock.clock.instant.nanoseconds)
      let counts = try random.pick(puppets).ask("counts")
      try #require(counts.hasPrefix("window \(calls) \(failures) "), "\(comment): \(counts)")
    }
    #expect(try stage.transitions("closed", "open") == trips)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a window is right from the moment at which an operator changes it`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(3, "failure-rate=90% window=10s min-calls=100")
    for length in ["20s", "5s", "100ms", "10s", "1h", "10s"] {
      try puppets.ask("successes 7")
      stage.clock.advance(by: .milliseconds(3))
      #expect(try puppets[0].ask("policy window \(length)") == "ok")
      try puppets.ask("successes 5")
      #expect(try puppets[2].ask("run fail") == "failed")
      try puppets.ask("successes 5")
      let counts = try puppets.ask("counts")
      #expect(counts.allSatisfy { $0.hasPrefix("window 31 1 ") }, "\(length): \(counts)")
      stage.clock.advance(by: .milliseconds(40))
    }
  }
}
