import BreakerStore
import Glibc
import SharedBreaker
import Synchronization
import TestShim
import TestSupport

/// A process that uses breakers through the library, from several threads.
final class TortureWorker: Sendable {
  private let board: Board
  let scribe: Scribe
  let store: SharedStore
  let breakers: [Breaker]
  private let slot: Int
  private let seed: UInt64
  private let hasOperators: Bool
  private let hasForks: Bool
  let journal: String
  private let hangMicroseconds: Int

  /// Whether the policy measures how long calls take.
  private let isSlowTold: Bool

  /// Raised whenever the store is lost or found again.
  private let turns: Turns

  final class Turns: Sendable {
    let count = Atomic(0)
  }

  init(_ role: Role) throws {
    let clock = try role.clock()
    journal = try role.text("journal")
    let scribe = try Scribe(path: journal, clock: clock)
    let turns = Turns()
    self.scribe = scribe
    self.turns = turns
    board = try Board(path: role.text("board"))
    store = SharedStore(
      path: try role.text("store"),
      options: StoreOptions(program: "worker", clock: clock) { event in
        switch event {
        case .transition(let name, let from, let to, _):
          scribe.noticed(name, from: from.wireName, to: to.wireName)
        case .unavailable, .available:
          turns.count.add(1, ordering: .sequentiallyConsistent)
        case .notDurable, .policyDiffers, .hookGaveUp, .rejected, .notShared, .transitionAlone:
          break
        }
      })
    let policy = try BreakerPolicy(words: role.text("policy"))
    isSlowTold = policy.slowAfter != nil
    let store = store
    breakers = try role.text("breakers").split(separator: ",").map {
      try store.breaker(String($0), policy: policy)
    }
    slot = try role.number("slot")
    seed = try role.seed()
    hasOperators = role.has("operators")
    hasForks = role.has("forks")
    hangMicroseconds = try role.number("hang")
  }

  /// Works until the referee ends it.
  func run(threads count: Int) {
    Threads.run(count) { thread in
      var random = SeededRandom(seed: self.seed &+ UInt64(thread))
      while !self.board.isOver {
        self.act(&random, marks: thread == 0)
        usleep(UInt32(random.number(0...4_000)))
      }
    }
    store.close()
  }

  private func act(_ random: inout SeededRandom, marks: Bool) {
    let index = random.number(0...breakers.count - 1)
    let choice = random.number(0...99)
    if board.isHealing { return call(index, &random, marks: marks) }
    switch choice {
    case 0..<65: call(index, &random, marks: marks)
    case 65..<80: callByToken(index, &random)
    // A failing resource is called less often.
    case 80..<92 where board.sickness(of: index) < 100: batch(index, count: random.number(2...60))
    case 80..<92: failures(index, count: random.number(2...60))
    case 92..<94: look(index)
    case 95 where hasOperators: operate(index, .trip) { try breakers[index].trip() }
    case 96 where hasOperators: operate(index, .reset) { try breakers[index].reset() }
    case 94 where hasOperators && random.number(0...2) == 0: force(index, &random)
    case 97 where random.number(0...9) == 0: store.close()
    case 98 where hasForks: fork(random)
    default: look(index)
    }
  }
}

/// The acts of a worker with a breaker.
extension TortureWorker {
  /// Records a call, and whether the store has surely recorded it.
  ///
  /// If the store was neither lost nor found again during the call, it was usable all the time.
  @discardableResult
  func note(
    _ id: Int, since turn: Int, _ answer: String, if isOfStore: Bool = true
  ) -> Bool {
    let isByStore =
      isOfStore && store.health == .connected
      && turns.count.load(ordering: .sequentiallyConsistent) == turn
    scribe.ended(id, isByStore: isByStore, answer)
    return isByStore
  }

  var turn: Int { turns.count.load(ordering: .sequentiallyConsistent) }

  func call(_ index: Int, _ random: inout SeededRandom, marks: Bool) {
    let breaker = breakers[index]
    let round = board.currentRound
    var before = turn
    let id = scribe.began(.acquire, breaker.name)
    do {
      let permit = try breaker.acquire()
      let isNormal = permit.kind == .normal
      let isOfStore = note(id, since: before, permit.kind.wireName)
      work(&random)
      before = turn
      let outcome = draw(index, &random)
      let report = scribe.began(.report, breaker.name, "\(outcome.rawValue)/\(id)")
      let verdict =
        switch outcome {
        case .success: permit.succeed(elapsed: .milliseconds(1))
        case .slow: permit.succeed(elapsed: .milliseconds(60))
        case .failure: permit.fail()
        case .ignored: permit.ignore()
        }
      // A call that the process's own breaker has permitted does not concern the store.
      let isByStore = note(report, since: before, "\(verdict)", if: isOfStore)
      if marks, isNormal, isByStore { board.saw(.permitted, of: index, by: slot, in: round) }
    } catch BreakerError.rejected {
      let isByStore = note(id, since: before, "rejected")
      if marks, isByStore { board.saw(.rejected, of: index, by: slot, in: round) }
    } catch {
      note(id, since: before, "error")
    }
  }

  private func callByToken(_ index: Int, _ random: inout SeededRandom) {
    let breaker = breakers[index]
    var before = turn
    let id = scribe.began(.acquire, breaker.name)
    let token: PermitToken
    do {
      token = try breaker.acquireToken(endingWith: random.number(0...1) == 0 ? getpid() : nil)
      note(id, since: before, token.kind.wireName)
    } catch BreakerError.rejected {
      note(id, since: before, "rejected")
      return
    } catch {
      note(id, since: before, "error")
      return
    }
    work(&random)
    before = turn
    let outcome = draw(index, &random)
    let report = scribe.began(.report, breaker.name, "\(outcome.rawValue)/\(id)")
    do {
      let verdict =
        switch outcome {
        case .success: try store.report(token, .success, elapsed: .milliseconds(1))
        case .slow: try store.report(token, .success, elapsed: .milliseconds(60))
        case .failure: try store.report(token, .failure(error: "sick"))
        case .ignored: try store.report(token, .ignored)
        }
      note(report, since: before, "\(verdict)")
    } catch {
      note(report, since: before, "error")
    }
  }

  private func batch(_ index: Int, count: Int) {
    let breaker = breakers[index]
    let before = turn
    let id = scribe.began(.batch, breaker.name, "\(count)")
    var well = 0
    for _ in 0..<count {
      let went: Bool? = try? breaker.run { true }
      if went == true { well += 1 }
    }
    note(id, since: before, "\(well)/\(count - well)")
  }

  /// Fails as fast as it can, so that a kill or a stop mostly comes inside a transaction.
  private func failures(_ index: Int, count: Int) {
    let breaker = breakers[index]
    let before = turn
    let id = scribe.began(.failures, breaker.name, "\(count)")
    var failed = 0
    for _ in 0..<count {
      guard let permit = try? breaker.acquire() else { continue }
      if permit.fail() != .refused { failed += 1 }
    }
    note(id, since: before, "\(failed)/\(count - failed)")
  }

  private func look(_ index: Int) {
    let before = turn
    let id = scribe.began(.look, breakers[index].name)
    let snapshot = breakers[index].snapshot()
    note(id, since: before, snapshot.state.wireName)
  }

  /// Takes some time, now and then longer than a probe may.
  func work(_ random: inout SeededRandom) {
    guard !board.isHealing else { return }
    let isHanging = random.number(0...49) == 0
    usleep(UInt32(isHanging ? random.number(0...hangMicroseconds) : random.number(0...3_000)))
  }

  private enum Outcome: String {
    case success
    case slow = "success-slow"
    case failure
    case ignored
  }

  private func draw(_ index: Int, _ random: inout SeededRandom) -> Outcome {
    guard !board.isHealing else { return .success }
    if random.number(0...49) == 0 { return .ignored }
    guard random.number(0...999) < board.sickness(of: index) else { return .success }
    let isSlow = random.number(0...9) < (isSlowTold ? 7 : 1)
    return isSlow ? .slow : .failure
  }
}

extension TortureWorker {
  /// Does what an operator would do, through the library.
  func operate(
    _ index: Int, _ action: Call.Action, _ detail: String = "-", _ body: () throws -> Void
  ) {
    let before = turn
    let id = scribe.began(action, breakers[index].name, detail)
    do {
      try body()
      note(id, since: before, "ok")
    } catch {
      note(id, since: before, "error")
    }
  }

  /// Sets a mode, and ends it again unless the process is killed before.
  func force(_ index: Int, _ random: inout SeededRandom) {
    let mode = random.pick([BreakerMode.forcedOpen, .forcedClosed, .observe])
    for mode in [mode, .automatic] {
      operate(index, .force, mode.wireName) { try breakers[index].force(mode) }
      work(&random)
    }
  }
}

extension TortureWorker {
  /// Forks a child that makes some calls, whatever the other threads of this process are doing.
  func fork(_ random: SeededRandom) {
    let child = ts_fork()
    guard child == 0 else {
      var status: Int32 = 0
      while unsafe waitpid(child, &status, 0) < 0, errno == EINTR {}
      precondition(status == 0, "the child of a fork ended with status \(status)")
      return
    }
    ts_limit(20)
    var random = random
    do {
      try scribe.begin("\(journal).\(getpid())")
    } catch {
      _exit(1)
    }
    for _ in 0..<random.number(1...10) {
      call(random.number(0...breakers.count - 1), &random, marks: false)
    }
    store.close()
    _exit(0)
  }
}
