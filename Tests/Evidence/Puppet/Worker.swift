import BreakerStore
import Glibc
@_spi(Relay) import SharedBreaker
import TestSupport

/// A process that uses breakers as an application does.
final class Worker {
  let store: SharedStore
  let events: EventLog
  var breaker: Breaker
  private var held: [Held] = []
  var hearing: Hearing?
  var begun: BreakerJob?
  var relay: RelayClaim?
  var slots: SlotPage?
  var heldSlots: [HeldSlot] = []

  init(_ options: PuppetOptions) throws {
    store = options.makeStore()
    events = options.events
    breaker = try store.breaker("api")
  }

  func answer(to line: String) -> String {
    let words = line.split(separator: " ").map { String($0) }
    guard let command = words.first.flatMap({ Self.commands[$0] }) else {
      return "error no command '\(line)'"
    }
    do {
      return try command(self, Array(words.dropFirst()))
    } catch {
      return Self.text(of: error)
    }
  }

  static func text(of error: any Error) -> String {
    switch error {
    case BreakerError.rejected(_, let rejection): Self.text(of: rejection)
    case BreakerError.store(let error): "store \(error.kind) \(error)"
    case let error as StoreError: "store \(error.kind) \(error)"
    default: "error \(error)"
    }
  }

  private static func text(of rejection: Rejection) -> String {
    if rejection.cause == .busy { return "busy" }
    let wait = rejection.retryAfter.map { String(Int64($0 / .milliseconds(1))) } ?? "never"
    return "rejected \(rejection.state.wireName) \(wait)"
  }

  private typealias Command = @Sendable (Worker, [String]) throws -> String

  private static let commands: [String: Command] = [
    "connect": { worker, _ in try worker.connect() },
    "open": { worker, words in try worker.open(words) },
    "name": { worker, words in
      try worker.done { worker.breaker = try worker.store.breaker(words[0]) }
    },
    "acquire": { worker, words in try worker.acquire(units: words.first.flatMap { Int($0) } ?? 1) },
    "environment": { worker, _ in
      worker.held.last?.environment.map { "\($0)=\($1)" }.first ?? "none"
    },
    "succeed": { worker, _ in worker.end { $0.succeed() } },
    "fail": { worker, words in worker.end { $0.fail(error: words.first) } },
    "ignore": { worker, _ in worker.end { $0.ignore() } },
    "run": { worker, words in worker.run(words) },
    "failures": { worker, words in try worker.failures(words) },
    "successes": { worker, words in try worker.successes(words) },
    "mixed": { worker, words in try worker.mixed(words) },
    "counts": { worker, _ in worker.counts() },
    "hammer": { worker, _ in try worker.hammer() },
    "meddle": { worker, words in worker.meddle(words) },
    "locked-files": { worker, _ in worker.lockedFiles() },
    "state": { worker, _ in worker.breaker.state.wireName },
    "snapshot": { worker, _ in worker.snapshot() },
    "token": { worker, words in
      try worker.breaker.acquireToken(endingWith: words.first.flatMap { Int32($0) }).description
    },
    "report": { worker, words in try worker.report(words) },
    "reset": { worker, _ in try worker.done { try worker.breaker.reset() } },
    "trip": { worker, words in
      try worker.done { try worker.breaker.trip(for: milliseconds(words.first)) }
    },
    "force": { worker, words in try worker.force(words) },
    "policy": { worker, words in try worker.override(words) },
    "claim": { worker, words in try worker.claim(words) },
    "release": { worker, _ in worker.release() },
    "fleet": { worker, words in try worker.command(words) },
    "news": { worker, words in try worker.news(words) },
    "descriptors": { worker, _ in String(Files.openDescriptors(of: worker.store.path)) },
    "watches": { _, _ in String(Files.openDescriptors(of: "anon_inode:inotify")) },
    "listen": { worker, words in worker.listen(words) },
    "handle": { worker, words in worker.handle(words) },
    "hear": { worker, words in try worker.hear(words) },
    "heard": { worker, _ in worker.heardSoFar() },
    "silence": { worker, _ in worker.silence() },
    "trips": { worker, words in try worker.trips(words) },
    "health": { worker, _ in worker.health() },
    "events": { worker, _ in worker.events.text },
    "stop-at": { _, words in
      Gate.shared.stop(at: Int(words[0]) ?? 0)
      return "ok"
    },
    "slot-begin": { worker, words in worker.beginSlot(words) },
    "slot-wait": { worker, words in worker.waitForSlot(words) },
    "slot-exec": { worker, words in try worker.becomeAnotherProgram(words) },
    "slot-begin-thread": { worker, words in worker.beginSlotInThread(words) },
    "slot-end": { worker, _ in worker.endSlot() },
    "limit-storm": { worker, words in try worker.stormLimit(words) },
    "slot-storm": { worker, words in try worker.stormSlots(words) },
    "fork": { worker, words in try worker.fork(words) },
    "fork-alone": { worker, words in try worker.forkWhileAlone(words) },
    "fork-churn": { worker, words in try worker.forkWhileChurning(words) },
    "fork-examining": { worker, words in try worker.forkWhileExamining(words) },
    "fork-timing": { worker, words in worker.forkWhileTiming(words) },
    "job": { worker, words in worker.runJob(words) },
    "job-begin": { worker, words in worker.beginJob(words) },
    "job-start": { worker, _ in worker.startJob() },
    "job-state": { worker, _ in worker.jobState() },
    "exit": { _, _ in exit(0) },
    "devour": { _, _ in Worker.devour() },
    "map-files": { _, words in Worker.mapFiles(Int(words[0]) ?? 0) },
    "threads": { _, _ in String(ProcessThreads.count(named: "breaker")) },
    "leave-leader": { worker, _ in worker.leaveLeader() },
    "rename": { worker, words in worker.rename(words) },
    "close-descriptors": { worker, words in worker.closeDescriptors(words) },
    "run-forked": { worker, words in worker.runForked(Int(words[0]) ?? 1) },
    "fork-idle": { worker, _ in worker.forkIdleChild() },
    "fork-hammer": { worker, words in try worker.forkWhileHammering(words) },
  ]

  private func connect() throws -> String { try done { try store.connect() } }

  /// `open POLICYWORDS`: gets the breaker, "api" unless named, with a policy such as
  /// `max-failures=3 open-for=1s`.
  private func open(_ words: [String]) throws -> String {
    var policy = BreakerPolicy()
    for word in words {
      let parts = word.split(separator: "=", maxSplits: 1)
      guard parts.count == 2, let key = PolicyKey(rawValue: String(parts[0])) else {
        throw SupportError("no policy word '\(word)'")
      }
      try policy.set(key, to: String(parts[1]))
    }
    breaker = try store.breaker(breaker.name, policy: policy)
    return "ok"
  }

  private func acquire(units: Int) throws -> String {
    let permit = try breaker.claiming(units: units).acquire()
    let kind = permit.kind.wireName
    held.append(Held(permit))
    return kind
  }

  /// Reports with the oldest permit that is held.
  private func end(_ report: (consuming Permit) -> ReportVerdict) -> String {
    guard !held.isEmpty, let permit = held.removeFirst().take() else { return "error no permit" }
    return "\(report(permit))"
  }

  func run(_ words: [String]) -> String {
    do {
      let value = try breaker.run {
        if words.first == "fail" { throw Boom() }
        return 42
      }
      return "ok \(value)"
    } catch is Boom {
      return "failed"
    } catch {
      return Self.text(of: error)
    }
  }

  /// `failures N`: makes N calls that fail, one after the other.
  private func failures(_ words: [String]) throws -> String {
    var answers: [String] = []
    for _ in 0..<(Int(words[0]) ?? 0) { answers.append(run(["fail"])) }
    return "failed \(answers.count("failed")) rejected \(answers.count("rejected"))"
  }

  /// `successes N`: makes N calls that succeed, one after the other.
  private func successes(_ words: [String]) throws -> String {
    var answers: [String] = []
    for _ in 0..<(Int(words[0]) ?? 0) { answers.append(run(["ok"])) }
    return "ok \(answers.count("ok")) rejected \(answers.count("rejected"))"
  }

  /// `mixed N M`: makes N calls, every M-th of which fails.
  private func mixed(_ words: [String]) throws -> String {
    let share = Int(words[1]) ?? 1
    var answers: [String] = []
    for call in 1...(Int(words[0]) ?? 1) {
      answers.append(run([call % share == 0 ? "fail" : "ok"]))
    }
    return "ok \(answers.count("ok")) failed \(answers.count("failed"))"
  }

  /// `locked-files`: makes a call, and returns the files of which pages are locked in memory then.
  private func lockedFiles() -> String {
    let answer = run(["ok"])
    return answer == "ok 42" ? LockedMemory.files.sorted().joined(separator: " ") : answer
  }

  /// The calls and failures in the window, and the totals of successes, failures and rejections.
  private func counts() -> String {
    let it = breaker.snapshot()
    return "window \(it.windowCalls) \(it.windowFailures) totals \(it.totals.successes)"
      + " \(it.totals.failures) \(it.totals.rejections)"
  }

  /// Fails until it is killed, and prints a dot for each failure that the store has recorded.
  private func hammer() throws -> String {
    while true {
      _ = try breaker.acquire().fail()
      if case .connected = store.health { Wire.shared.write(".") }
    }
  }

  private func snapshot() -> String {
    let it = breaker.snapshot()
    return "\(it.state.wireName) \(it.mode.wireName) permits=\(it.permits)"
      + " generation=\(it.generation) consecutive=\(it.consecutiveFailures) trips=\(it.trips)"
      + " failures=\(it.totals.failures) successes=\(it.totals.successes)"
      + " leases=\(it.leases.count)"
  }

  private func report(_ words: [String]) throws -> String {
    guard words.count == 2, let token = PermitToken(words[0]) else { return "error no token" }
    let outcomes = ["success": CallOutcome.success, "failure": .failure(), "ignored": .ignored]
    guard let outcome = outcomes[words[1]] else { return "error no outcome" }
    return "\(try store.report(token, outcome))"
  }

  private func force(_ words: [String]) throws -> String {
    guard let mode = BreakerMode(wireName: words[0]) else { return "error no mode" }
    return try done { try breaker.force(mode, for: milliseconds(words.dropFirst().first)) }
  }

  private func override(_ words: [String]) throws -> String {
    guard let key = PolicyKey(rawValue: words[0]) else { return "error no policy word" }
    return try done {
      try words.count > 1
        ? breaker.overridePolicy(set: [key: words[1]]) : breaker.overridePolicy(unset: [key])
    }
  }

  private func health() -> String {
    switch store.health {
    case .untried: "untried"
    case .connected: "connected"
    case .unavailable(let error): "unavailable \(error.kind) \(error)"
    }
  }

  private func done(_ body: () throws -> Void) throws -> String {
    try body()
    return "ok"
  }
}

/// A box for a permit, which cannot be in an array itself because it cannot be copied.
private final class Held {
  private var permit: Permit?

  init(_ permit: consuming Permit) { self.permit = consume permit }

  var environment: [String: String] { permit?.environment ?? [:] }

  func take() -> Permit? { permit.take() }
}

private struct Boom: Error {}

private func milliseconds(_ word: String?) -> Duration? {
  word.flatMap { Int64($0) }.map { .milliseconds($0) }
}
