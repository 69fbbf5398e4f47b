import BreakerCore
import BreakerStore
import Glibc
import TestSupport
import Testing

/// The locks by which processes that cannot see each other know that an owner has ended.
@Suite struct LifelineTests {
  /// A breaker whose open time is over, and the processes that use it.
  private func dueForProbe(_ count: Int, probes: Int = 1) throws -> (Stage, [Puppet]) {
    let stage = try Stage()
    let puppets = try stage.puppets(
      count, "max-failures=1 open-for=30s probe-timeout=10s probes=\(probes)")
    #expect(try puppets[0].ask("run fail") == "failed")
    stage.clock.advance(by: .seconds(30))
    return (stage, puppets)
  }

  /// Makes the owners of all leases processes of another PID namespace.
  private func hideOwners(in stage: Stage) throws {
    try Database.rows(
      stage.store,
      "UPDATE lease SET pid = 1, pid_namespace = 2; UPDATE breaker SET name = name")
  }

  @Test(.timeLimit(.minutes(60)), arguments: [true, false])
  func `a prober in another PID namespace frees its slot when it is killed, and not before`(
    isReaped: Bool
  ) throws {
    let (stage, puppets) = try dueForProbe(3)
    let (prober, asker, other) = (puppets[0], puppets[1], puppets[2])
    #expect(try prober.ask("acquire") == "probe")
    try hideOwners(in: stage)
    for _ in 1...3 { #expect(try other.ask("acquire").hasPrefix("rejected half_open")) }
    // A child that lives on keeps nothing of its parent's.
    let child = try #require(Int32(try prober.ask("fork-idle")))
    defer { kill(child, SIGKILL) }
    if isReaped { prober.kill() } else { prober.process.killAndLeaveZombie() }
    #expect(try asker.ask("snapshot").contains("permits=true"))
    #expect(try other.ask("acquire") == "probe")
    #expect(try other.ask("succeed") == "counted")
    #expect(try other.ask("state") == "closed")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a prober keeps its slot whatever descriptors its program closes`() throws {
    let (stage, puppets) = try dueForProbe(2)
    let (prober, other) = (puppets[0], puppets[1])
    #expect(try prober.ask("acquire") == "probe")
    try hideOwners(in: stage)
    let files = ["", "-wal", "-shm", "-lock"].map { stage.store + $0 }.joined(separator: " ")
    #expect(try prober.ask("close-descriptors \(files)") == "ok")
    #expect(try other.ask("acquire").hasPrefix("rejected half_open"))
    prober.kill()
    #expect(try other.ask("acquire") == "probe")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a prober keeps its slot if the lock file is deleted`() throws {
    let (stage, puppets) = try dueForProbe(3, probes: 2)
    let (prober, second, other) = (puppets[0], puppets[1], puppets[2])
    #expect(try prober.ask("acquire") == "probe")
    unsafe unlink(stage.store + "-lock")
    // It makes the file again.
    #expect(try second.ask("acquire") == "probe")
    try hideOwners(in: stage)
    #expect(try other.ask("acquire").hasPrefix("rejected half_open"))
    prober.kill()
    // No process can look at a deleted file, so only the deadline ends this probe.
    #expect(try other.ask("acquire").hasPrefix("rejected half_open"))
    second.kill()
    #expect(try other.ask("acquire") == "probe")
    let files = "SELECT count(DISTINCT lifeline_file) FROM lease"
    #expect(try Database.value(stage.store, files) == "2")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a process has one lifeline, and a child of a fork another one`() throws {
    let (stage, puppets) = try dueForProbe(1, probes: 4)
    #expect(try puppets[0].ask("acquire") == "probe")
    #expect(try puppets[0].ask("acquire") == "probe")
    #expect(try puppets[0].ask("fork acquire") == "probe")
    let lifelines = try Database.rows(
      stage.store, "SELECT lifeline, lifeline_file FROM lease ORDER BY id")
    #expect(lifelines.count == 3)
    #expect(lifelines[0] == lifelines[1])
    #expect(lifelines[0][0] != lifelines[2][0])
    #expect(lifelines[0][1] == lifelines[2][1])
  }

  @Test(.timeLimit(.minutes(60)))
  func `the lease of a token names no lifeline, because its owner may become another program`()
    throws
  {
    let (stage, puppets) = try dueForProbe(1)
    #expect(try puppets[0].ask("token \(puppets[0].pid)").hasPrefix("cb1."))
    #expect(
      try Database.value(stage.store, "SELECT lifeline IS NULL AND pid > 0 FROM lease") == "1")
  }

  @Test(.timeLimit(.minutes(60)))
  func `an owner without /proc is gone when its lifeline is`() throws {
    let (stage, puppets) = try dueForProbe(2)
    #expect(try puppets[0].ask("acquire") == "probe")
    try Database.rows(
      stage.store,
      "UPDATE lease SET start_ticks = 0, pid_namespace = 0; UPDATE breaker SET name = name")
    #expect(try puppets[1].ask("acquire").hasPrefix("rejected half_open"))
    puppets[0].kill()
    #expect(try puppets[1].ask("acquire") == "probe")
  }

  @Test func `a hook whose owner is not visible goes to another process when the owner ends`()
    throws
  {
    let stage = try Stage()
    func storage() throws -> SQLiteStorage {
      let storage = SQLiteStorage(
        path: stage.store, lockTimeout: .seconds(60), clock: stage.clock.clock, program: "test")
      try storage.open(mayCreate: true)
      return storage
    }
    func request(_ storage: SQLiteStorage) -> HookRequest {
      let process = ProcessIdentity(pid: 1, startTicks: 1, pidNamespace: 2)
      return HookRequest(
        hook: "pager", name: nil, process: process.holding(storage.lifeline()),
        timeout: .seconds(60), attempts: 5)
    }
    var first: SQLiteStorage? = try storage()
    let second = try storage()
    if let first { _ = try first.answer(request(first)) }
    let tripped = try stage.puppets(1, "max-failures=1")
    #expect(try tripped[0].ask("run fail") == "failed")
    if let first {
      guard case .run = try first.answer(request(first)) else { throw SupportError("no turn") }
    }
    guard case .wait = try second.answer(request(second)) else { throw SupportError("no wait") }
    first = nil
    guard case .run = try second.answer(request(second)) else { throw SupportError("no turn") }
  }
}
