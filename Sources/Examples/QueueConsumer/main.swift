// A consumer of a queue, which decides what to do with a job by why it was not done.
//
//     swift run queue-consumer
//
// - A job that failed, and failed again at the second attempt, returns to the queue for a little
//   later.
// - A job that the breaker rejected returns to the queue for the time the breaker names
//   (`retryAfter`).
// - A job that is malformed goes to the dead letters, because no attempt will ever succeed.
//
// You may run any number of consumers in any number of processes: they share one breaker.

import Glibc
import SharedBreaker

struct Job {
  var name: String
  var failures = 0
  var due = ContinuousClock.now
}

struct ServiceDown: Error {}
struct MalformedJob: Error {}

/// A stand-in for a service across a network, which is down from its third call to its seventh.
actor Service {
  private var calls = 0

  func deliver(_ job: Job) throws {
    if job.name.isEmpty { throw MalformedJob() }
    calls += 1
    if (3...7).contains(calls) { throw ServiceDown() }
  }
}

struct Consumer {
  let breaker: Breaker
  let service = Service()
  var queue: [Job]
  var delivered: [String] = []
  var deadLetters: [Job] = []

  // A quick second attempt helps with a short failure. The queue handles longer outages.
  let retry = RetryPolicy.exponential(attempts: 2, delay: .milliseconds(20), jitter: 0.2)

  /// Ignores malformed jobs, because they say nothing about the service.
  ///
  /// Use `.permanentFailure` for failures that no later call can avoid, such as a revoked key: it
  /// opens the breaker at once, for all jobs.
  let judge: ErrorJudge = { error in
    error is MalformedJob ? .ignored : Breaker.usualOutcome(of: error)
  }

  mutating func run() async throws {
    while let index = queue.indices.min(by: { queue[$0].due < queue[$1].due }) {
      let job = queue.remove(at: index)
      try await Task.sleep(until: job.due)
      await handle(job)
    }
  }

  private mutating func handle(_ job: Job) async {
    let service = service
    do {
      try await breaker.run(retry: retry, outcome: judge) {
        try await service.deliver(job)
      }
      delivered.append(job.name)
      print("\(job.name): delivered")
    } catch let error as BreakerError {
      // A rejection is not the job's fault, so it does not count as a failure of the job. If an
      // operator holds the breaker open until further notice, `retryAfter` is nil: try now and
      // then. Something random keeps all consumers from coming back at once.
      let wait = (error.retryAfter ?? .seconds(10)) * Double.random(in: 1..<1.2)
      put(job, back: wait, because: "\(error)")
    } catch is MalformedJob {
      bury(job, because: "it is malformed")
    } catch {
      var job = job
      job.failures += 1
      guard job.failures < 5 else { return bury(job, because: "it failed 5 times: \(error)") }
      put(job, back: .milliseconds(50 << job.failures), because: "\(error)")
    }
  }

  private mutating func put(_ job: Job, back wait: Duration, because reason: String) {
    print("\(job.name): back to the queue for \(wait): \(reason)")
    var job = job
    job.due = .now + wait
    queue.append(job)
  }

  private mutating func bury(_ job: Job, because reason: String) {
    print("\(job.name.isEmpty ? "a job without a name" : job.name): dead letter: \(reason)")
    deadLetters.append(job)
  }
}

func consume(in directory: String) async throws -> Int32 {
  let store = SharedStore(path: directory + "/breakers.db")
  defer { store.close() }
  let breaker = try store.breaker(
    "deliveries", policy: BreakerPolicy(maxFailures: 3, openFor: .milliseconds(250)))
  let names = ["job 1", "job 2", "job 3", "", "job 4", "job 5"]
  var consumer = Consumer(breaker: breaker, queue: names.map { Job(name: $0) })
  try await consumer.run()

  let end = breaker.snapshot()
  print("\(consumer.delivered.count) delivered, \(consumer.deadLetters.count) dead letter,")
  print("\(end.totals.failures) calls failed, \(end.totals.rejections) were rejected,")
  print("and the breaker, which has opened \(end.trips) times, is \(end.state.wireName).")
  return consumer.delivered.count == 5 && consumer.deadLetters.count == 1 ? 0 : 1
}

// The example has a store of its own, so that it shares nothing. Use `SharedStore()` in a program.
var template = Array("/tmp/queue-consumer.XXXXXX".utf8CString)
guard unsafe mkdtemp(&template) != nil else {
  unsafe perror("a directory in /tmp cannot be made")
  exit(1)
}
let directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
let code = try await consume(in: directory)
for suffix in ["", "-wal", "-shm", "-counters", "-slots", "-lock"] {
  unsafe unlink(directory + "/breakers.db" + suffix)
}
unsafe rmdir(directory)
exit(code)
