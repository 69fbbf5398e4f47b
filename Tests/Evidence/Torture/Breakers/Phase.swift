import BreakerCore
import Glibc
import SharedBreaker
import TestSupport

/// One phase: a store, the processes that use it, the faults, and the check that all recovers.
final class Phase {
  let plan: Plan
  private let directory: String
  private let board: Board
  private let clock: TestClock?
  private let disk: SmallDisk?
  private let cast: Cast
  private let mischief: Mischief
  private let scribe: Scribe
  private let own: SharedStore
  private let ownJournal: String
  private(set) var tally = Tally()
  private var healing = 0

  /// How soon every breaker must be closed again for every process once all is healthy.
  ///
  /// It covers the open time and the time of a probe, a second until a lost store is tried again,
  /// another until a replaced file is noticed, and a margin for a busy machine.
  static let patienceNanoseconds: Int64 = 30_000_000_000

  private var store: String { "\(directory)/state/breakers.db" }

  init(_ plan: Plan, in directory: String) throws {
    self.plan = plan
    self.directory = directory
    try Files.makeDirectory(directory)
    board = try Board(path: directory + "/board")
    clock = plan.kind == .clock ? try TestClock(path: directory + "/clock") : nil
    disk =
      plan.kind.fillsDisk ? try SmallDisk(at: directory + "/state", kilobytes: 32_768) : nil
    let store = directory + "/state/breakers.db"
    let clockPath = clock.map { ["clock=\($0.path)"] } ?? []
    cast = Cast(in: directory) { isWorker, number in
      Self.role(plan, store: store, board: directory + "/board", isWorker, number) + clockPath
    }
    mischief = try Mischief(
      cast, board, clock: clock, disk: disk, store: store, in: directory)
    ownJournal = directory + "/journal-0"
    let scribe = try Scribe(path: ownJournal, clock: clock?.clock ?? .system)
    self.scribe = scribe
    own = SharedStore(
      path: store,
      options: StoreOptions(
        lockTimeout: .seconds(5), program: "referee", clock: clock?.clock ?? .system
      ) { event in
        guard case .transition(let name, let from, let to, _) = event else { return }
        scribe.noticed(name, from: from.wireName, to: to.wireName)
      })
  }

  private static func role(
    _ plan: Plan, store: String, board: String, _ isWorker: Bool, _ number: Int
  ) -> [String] {
    var words = [
      isWorker ? "worker" : "commander", "store=\(store)", "board=\(board)",
      "breakers=\(plan.breakers.joined(separator: ","))", "policy=\(plan.policy.words)",
      "seed=\(plan.seed &+ UInt64(plan.number * 100 + number))",
    ]
    if isWorker {
      // A moved clock stands still while a worker sleeps, so the sleep is short there.
      let hang = plan.kind == .clock ? 20 : plan.policy.probeTimeoutMilliseconds * 3 / 2
      if plan.kind == .forks { words.append("forks") }
      words += ["slot=\(number)", "threads=\(plan.workers[number])", "hang=\(hang * 1_000)"]
    }
    if plan.hasOperators { words.append("operators") }
    if plan.kind != .files, !plan.isColdStart { words.append("shell") }
    if plan.kind == .deletions { words.append("deletions") }
    return words
  }

  /// Runs the phase, and returns the violations.
  func run() throws -> [Violation] {
    let found = try judge()
    // The phase unmounts its own disk, so its files are copied first.
    if disk != nil, !found.isEmpty {
      _ = try Child.run("/bin/cp", ["-a", directory + "/state", directory + "/state-kept"])
    }
    return found
  }

  private func judge() throws -> [Violation] {
    if !plan.isColdStart { try prepare() }
    try cast.start(workers: plan.workers.count, commanders: plan.commanders)
    try mischief.carryOut(plan)
    board.heal()
    let healed = Scribe.now()
    cast.dismissCommanders()
    var found = try callRoll(since: healed)
    board.end()
    cast.dismissWorkers()
    own.close()
    found += cast.violations
    let evidence = try evidence()
    let integrity = try Database.integrity(store)
    if integrity != "ok" { found.append(Violation(.damage, integrity)) }
    var referee = Referee(evidence)
    found += referee.violations()
    tally = Tally(plan, evidence, referee, cast, mischief)
    tally.healing = healing
    return found
  }

  /// Creates the store and its breakers, and a copy for later.
  private func prepare() throws {
    try own.connect()
    let policy = try BreakerPolicy(words: plan.policy.words)
    for name in plan.breakers { _ = try own.breaker(name, policy: policy) }
    try Database.rows(store, "VACUUM INTO '\(directory)/spare.db'")
    try Database.rows(directory + "/spare.db", "PRAGMA journal_mode=WAL")
  }
}

/// Checking that everything has recovered.
extension Phase {
  /// Checks that all workers are permitted by every breaker, see it open, and see it close.
  private func callRoll(since start: Int64) throws -> [Violation] {
    var found: [Violation] = []
    let policy = try BreakerPolicy(words: plan.policy.words)
    let breakers = try plan.breakers.map { try own.breaker($0, policy: policy) }
    // A process that set a mode may have been killed before it could end it.
    for breaker in breakers {
      try operate(.force, breaker, "automatic") { try breaker.force(.automatic) }
    }
    board.ask()
    found += try wait(.permitted, "after all had become healthy")
    guard found.isEmpty else { return found }
    healing = Int((Scribe.now() - start) / 1_000_000)
    for breaker in breakers {
      try operate(.trip, breaker) { try breaker.trip(for: .seconds(86_400)) }
    }
    board.ask()
    found += try wait(.rejected, "after a trip")
    for breaker in breakers { try operate(.reset, breaker) { try breaker.reset() } }
    board.ask()
    found += try wait(.permitted, "after a reset")
    return found
  }

  private func operate(
    _ action: Call.Action, _ breaker: Breaker, _ detail: String = "-", _ body: () throws -> Void
  ) throws {
    let deadline = Scribe.now() + Self.patienceNanoseconds
    while true {
      let id = scribe.began(action, breaker.name, detail)
      do {
        try body()
        scribe.ended(id, "ok")
        return
      } catch {
        scribe.ended(id, "error")
        guard Scribe.now() < deadline else { return }
        try letTimePass()
      }
    }
  }

  /// Waits until every worker has seen every breaker in a given way.
  private func wait(_ sight: Board.Sight, _ occasion: String) throws -> [Violation] {
    let all = Int64(1) << Int64(plan.breakers.count) - 1
    let deadline = Scribe.now() + Self.patienceNanoseconds
    while true {
      let late = (0..<cast.workerCount).filter { board.seen(sight, by: $0) != all }
      if late.isEmpty { return [] }
      guard Scribe.now() < deadline else {
        let states = plan.breakers.map { name in
          let snapshot = try? own.snapshot(of: name)
          return "\(name) \(snapshot.map { "\($0.state) \($0.retryAfter as Any)" } ?? "unknown")"
        }
        return [
          Violation(
            .stuck,
            "\(occasion), workers \(late) were not \(sight) by all within"
              + " \(Self.patienceNanoseconds / 1_000_000_000) s: \(states.joined(separator: ", "))")
        ]
      }
      try letTimePass()
    }
  }

  private func letTimePass() throws {
    try Interruption.check()
    mischief.advance(by: .milliseconds(100))
    usleep(2_000)
  }
}

/// Collecting the evidence at the end.
extension Phase {
  private func evidence() throws -> Evidence {
    var evidence = Evidence()
    evidence.journals = try cast.journals()
    evidence.journals.append(try Journal(pid: getpid(), lines: try Files.read(ownJournal)))
    evidence.probes = plan.policy.probes
    evidence.probeTimeout = Int64(plan.policy.probeTimeoutMilliseconds) * 1_000_000
    evidence.clock = mischief.moves
    evidence.isContinuous = plan.kind.isContinuous
    evidence.isColdStart = plan.isColdStart
    evidence.keepsCounters = plan.kind.keepsCounters && !plan.isColdStart
    evidence.mayBeUnavailable = plan.isColdStart || !plan.kind.keepsNobodyWaiting
    let events = try Database.rows(
      store,
      "SELECT id, name, kind, from_word, to_word, pid FROM event WHERE kind IN (0, 1, 2, 4, 6) ORDER BY id"
    )
    evidence.events = events.map { words in
      var event = Event(
        id: Int64(words[0]) ?? 0, breaker: words[1], isReset: words[2] == "2", from: words[3],
        to: words[4], pid: Int32(words[5]) ?? 0)
      event.isDeletion = words[2] == "4"
      event.isMode = words[2] == "1"
      event.isExtension = words[2] == "6"
      if event.isExtension { event.to = event.from }
      return event
    }
    for name in plan.breakers {
      guard let snapshot = try own.snapshot(of: name) else { continue }
      var row = Row()
      row.successes = snapshot.totals.successes
      // Not a snapshot, which also shows changes by time alone that are not in the history yet.
      let stored = try Database.rows(
        store, "SELECT state, generation, trips, failures FROM breaker WHERE name = '\(name)'")
      let numbers = (stored.first ?? []).map { Int64($0) ?? -1 }
      guard numbers.count == 4 else { continue }
      row.state = BreakerState(rawValue: Int(numbers[0]))?.wireName ?? "unknown"
      row.generation = numbers[1]
      row.trips = numbers[2]
      row.failures = numbers[3]
      let kept = try Database.value(store, "SELECT count(*) FROM event WHERE name = '\(name)'")
      row.isTrimmed = Int(kept) ?? 0 >= 500
      let timeouts = try Database.value(
        store, "SELECT count(*) FROM event WHERE name = '\(name)' AND to_word = 'timed_out'")
      row.timeouts = Int64(timeouts) ?? 0
      evidence.rows[name] = row
    }
    own.close()
    return evidence
  }
}
