import Glibc
import SharedBreaker

/// A call that does next to nothing, and that the optimiser may not look into.
@inline(never) func work(_ counter: inout Int) { counter &+= 1 }

@inline(never) func asynchronousWork(_ counter: inout Int) async { counter &+= 1 }

/// Runs asynchronous code to its end, for figures that are measured one after the other.
func waiting(_ body: @escaping @Sendable () async throws -> Double) throws -> Double {
  nonisolated(unsafe) var result: Result<Double, any Error> = .failure(BenchError("did not end"))
  nonisolated(unsafe) var semaphore = sem_t()
  unsafe sem_init(&semaphore, 0, 0)
  Task.detached {
    do { unsafe result = .success(try await body()) } catch { unsafe result = .failure(error) }
    unsafe sem_post(&semaphore)
  }
  unsafe sem_wait(&semaphore)
  return try unsafe result.get()
}

/// What calls cost in a process that has the store to itself.
func singleProcessFigures(room: String, calls: Int, writes: Int) throws -> [Figure] {
  let store = SharedStore(path: "\(room)/store.db")
  let healthy = try store.breaker("healthy", policy: BreakerPolicy(maxFailures: 5))
  let timed = try store.breaker("timed", policy: BreakerPolicy(slowAfter: .seconds(1)))
  let rated = try store.breaker(
    "rated", policy: BreakerPolicy(failureRate: 0.5, window: .seconds(60)))
  let open = try store.breaker("open")
  try open.trip(for: .seconds(86_400))
  let fail = try Writers.failing(store)
  let raw = try RawStore("\(room)/raw.db", waiting: .timeout)
  var counter = 0
  return [
    Figure(name: "bare call", unit: "ns") { nanosecondsEach(calls) { work(&counter) } },
    Figure(name: "run, healthy", unit: "ns", floor: "bare call", isDifference: true) {
      try nanosecondsEach(calls) { try healthy.run { work(&counter) } }
    },
    Figure(name: "run, timed for slow calls", unit: "ns", floor: "bare call", isDifference: true) {
      try nanosecondsEach(calls) { try timed.run { work(&counter) } }
    },
    Figure(name: "bare await", unit: "ns") {
      try waiting {
        var counter = 0
        let start = seconds()
        for _ in 0..<calls { await asynchronousWork(&counter) }
        return (seconds() - start) / Double(calls) * 1e9
      }
    },
    Figure(name: "run, healthy, async", unit: "ns", floor: "bare await", isDifference: true) {
      try waiting {
        var counter = 0
        let start = seconds()
        for _ in 0..<calls { try await healthy.run { await asynchronousWork(&counter) } }
        return (seconds() - start) / Double(calls) * 1e9
      }
    },
    Figure(name: "bare boot clock", unit: "ns") {
      var time = timespec()
      return nanosecondsEach(calls) { unsafe clock_gettime(CLOCK_BOOTTIME, &time) }
    },
    Figure(name: "rejection, as a value", unit: "ns", floor: "bare boot clock", isDifference: true)
    {
      try nanosecondsEach(calls) {
        if case .permitted = try open.decide() { throw BenchError("let through") }
      }
    },
    Figure(name: "rejection, thrown", unit: "ns", floor: "bare boot clock", isDifference: true) {
      try nanosecondsEach(calls) {
        do {
          try open.run {}
          throw BenchError("let through")
        } catch is BreakerError {}
      }
    },
    Figure(name: "raw SQLite transaction", unit: "ns") {
      try nanosecondsEach(writes) { try raw.increment() }
    },
    Figure(name: "failure recorded", unit: "ns", floor: "raw SQLite transaction") {
      try nanosecondsEach(writes) { try fail() }
    },
    Figure(name: "success in a window", unit: "ns", floor: "raw SQLite transaction") {
      try nanosecondsEach(writes) { try rated.run { work(&counter) } }
    },
  ]
}

/// How many processes at once share a store: throughput, fairness, and the longest wait.
func contentionFigures(room: String, duration: Double) -> [Figure] {
  let kinds: [(Writers.Kind, String)] = [
    (.rawTimeout, "raw, SQLite's waiting"), (.rawPauses, "raw, our waiting"),
    (.breaker, "failures recorded"),
  ]
  return [2, 16].flatMap { processes in
    kinds.flatMap { kind, name in
      let latest = Latest()
      let label = "\(name), \(processes) processes"
      let floor = kind == .breaker ? "raw, our waiting, \(processes) processes" : nil
      return [
        Figure(name: label, unit: "1/s", floor: floor) {
          latest.results = try Writers.run(
            kind, processes: processes, path: "\(room)/writers-\(kind.rawValue).db", for: duration)
          return Double(latest.writes.reduce(0, +)) / duration
        },
        Figure(name: "\(label): fewest of one, share of mean", unit: "") {
          let mean = Double(latest.writes.reduce(0, +)) / Double(processes)
          return Double(latest.writes.min() ?? 0) / mean
        },
        Figure(name: "\(label): longest wait", unit: "ms") {
          latest.results.map(\.longestMilliseconds).max() ?? .nan
        },
      ]
    }
  }
}

/// The results of the latest run, which several figures look at.
private final class Latest {
  var results: [Writers.Result] = []
  var writes: [Int] { results.map(\.writes) }
}
