import Glibc
import SharedBreaker
import TestSupport

/// Carries out the faults of a plan, each at its time.
final class Mischief {
  private let cast: Cast
  private let board: Board
  private let clock: TestClock?
  private let disk: SmallDisk?
  private let store: String
  private let spare: String

  /// Records what is done and when, for the analysis of a violation.
  private let scribe: Scribe

  /// Faults to undo, and the time for each.
  private var later: [(at: Int64, undo: () -> Void)] = []
  private(set) var moves: [When] = []
  private(set) var filesReplaced = 0
  private(set) var pagesDeleted = 0
  private(set) var disksFilled = 0

  init(
    _ cast: Cast, _ board: Board, clock: TestClock?, disk: SmallDisk?, store: String,
    in directory: String
  ) throws {
    self.cast = cast
    self.board = board
    self.clock = clock
    self.disk = disk
    self.store = store
    spare = directory + "/spare.db"
    scribe = try Scribe(path: directory + "/faults", clock: clock?.clock ?? .system)
    if clock != nil { noteClock() }
  }

  /// Carries out all faults, and then undoes those that need it.
  func carryOut(_ plan: Plan) throws {
    let start = Scribe.now()
    for (milliseconds, fault) in plan.faults {
      try wait(until: start + Int64(milliseconds) * 1_000_000)
      try carryOut(fault)
    }
    try wait(until: start + Int64(plan.milliseconds) * 1_000_000)
    later.forEach { $0.undo() }
    later = []
  }

  private func wait(until time: Int64) throws {
    while true {
      try Interruption.check()
      let now = Scribe.now()
      later.filter { $0.at <= now }.forEach { $0.undo() }
      later.removeAll { $0.at <= now }
      let next = min(time, later.map(\.at).min() ?? time)
      guard now < time else { return }
      usleep(UInt32(clamping: max(0, next - now) / 1_000 + 1))
    }
  }

  private func carryOut(_ fault: Plan.Fault) throws {
    scribe.remarked("\(fault)")
    switch fault {
    case .kill(let worker):
      try cast.kill(worker)
    case .stop(let worker, let milliseconds):
      if let resume = cast.stop(worker) { undo(after: milliseconds, resume) }
    case .sicken(let breaker, let permille):
      board.sicken(breaker, permille: permille)
    case .deleteCounters:
      pagesDeleted += 1
      Files.removeAll(store + "-counters")
    case .deleteFile(let withLog):
      filesReplaced += 1
      Files.removeAll(store)
      if withLog { removeLog() }
    case .replaceFile(let withLog):
      try replaceFile(withLog: withLog)
    case .fillDisk(let milliseconds):
      guard let disk else { return }
      disksFilled += 1
      try disk.fill()
      undo(after: milliseconds) { disk.makeRoom() }
    case .advance(let milliseconds):
      advance(by: .milliseconds(milliseconds))
    case .moveWall(let days):
      clock?.moveWall(by: .seconds(days * 86_400))
    }
  }

  private func undo(after milliseconds: Int, _ body: @escaping () -> Void) {
    later.append((Scribe.now() + Int64(milliseconds) * 1_000_000, body))
  }

  /// Replaces the store by an older copy.
  private func replaceFile(withLog: Bool) throws {
    guard Files.exists(spare) else { return }
    filesReplaced += 1
    let copy = spare + "-copy"
    try Files.write(copy, try Files.read(spare))
    if withLog { removeLog() }
    try Files.rename(copy, to: store)
  }

  private func removeLog() {
    for part in ["-wal", "-shm"] { Files.removeAll(store + part) }
  }

  /// Moves the clock of the store, and notes the time before that, so that nothing ends too early.
  func advance(by time: Duration) {
    guard let clock else { return }
    let now = Scribe.now()
    clock.advance(by: time)
    moves.append(When(real: now, store: clock.clock.instant.nanoseconds))
  }

  private func noteClock() {
    guard let clock else { return }
    moves.append(When(real: Scribe.now(), store: clock.clock.instant.nanoseconds))
  }
}
