import SharedBreaker
import SharedBreakerTesting
import TestSupport

/// Damages the shared counters in every way while they are in use.
///
/// Counters are statistics. Damage to them must not open a breaker, must not keep it open, and must
/// not keep it from opening once the damage is over.
enum PageTarget {
  static func run(_ bytes: [UInt8]) {
    do {
      var run = try PageRun()
      var bytes = FuzzBytes(bytes)
      for _ in 0..<64 where !bytes.isEmpty { try run.step(&bytes) }
      try run.finish()
    } catch {
      fatalError("\(error)")
    }
  }
}

private struct PageRun {
  private let clock: ManualClock
  private let words = CounterWords(ofStore: FuzzStore.path)

  /// Two objects that use the store like two processes.
  private let stores: [SharedStore]
  private var breakers: [[Breaker]] = []

  /// The failures of each breaker since it was closed, and all failures that were ever reported.
  private var failures: [Int]
  private var reported: [Int64]

  init() throws {
    let clock = try FuzzStore.restore(
      database: FuzzStore.seed[0], log: FuzzStore.seed[1], counters: FuzzStore.seed[2])
    self.clock = clock
    stores = (0..<2).map { _ in
      SharedStore(path: FuzzStore.path, options: StoreOptions(clock: clock.storeClock))
    }
    for store in stores {
      breakers.append(try FuzzStore.policies.map { try store.breaker($0.name) })
    }
    failures = FuzzStore.policies.map { _ in 0 }
    reported = breakers[0].map { $0.snapshot().totals.failures }
  }

  mutating func step(_ bytes: inout FuzzBytes) throws {
    let action = bytes.number(below: 10)
    let user = bytes.number(below: 2)
    let which = bytes.number(below: FuzzStore.policies.count)
    switch action {
    // A file that does not exist cannot be damaged.
    case 0...3 where !Files.exists(FuzzStore.path + "-counters"): break
    case 0...2:
      let word = bytes.number(below: CounterWords.wordsOfBreaker)
      try words.set(word: word, ofBreaker: which + 1, to: bytes.word())
    case 3: try words.setHeader(word: bytes.number(below: 5), to: bytes.word())
    case 4: try replaceFile(with: &bytes)
    case 5: clock.advance(by: .milliseconds(bytes.number(below: 20_000)))
    case 6: stores[user].close()
    case 7: try fail(breakers[user][which], which)
    default:
      for _ in 0..<bytes.number(below: 24) { try succeed(breakers[user][which], which) }
    }
    try check(breakers[user][which], which)
  }

  /// Replaces or deletes the file that is in use.
  private func replaceFile(with bytes: inout FuzzBytes) throws {
    let path = FuzzStore.path + "-counters"
    guard bytes.number(below: 4) != 0 else { return Files.removeAll(path) }
    var file = FuzzStore.seed[2]
    for _ in 0..<bytes.number(below: 8) {
      let at = bytes.number(below: 3) == 0 ? bytes.number(below: 40) : bytes.number(below: 65_792)
      file[at] = bytes.byte()
    }
    let isShort = bytes.number(below: 2) == 0
    try Files.write(
      path + ".other", isShort ? Array(file.prefix(bytes.number(below: 65_536))) : file)
    try Files.rename(path + ".other", to: path)
  }

  private mutating func succeed(_ breaker: Breaker, _ which: Int) throws {
    do throws(BreakerError) {
      let permit = try breaker.acquire()
      let wasClosed = permit.kind == .normal
      permit.succeed()
      if !wasClosed { failures[which] = 0 }
      // A success ends a row of failures, but does not end those in a window.
      if which == 0 { failures[which] = 0 }
    } catch {
      try expectRejection(error, which)
    }
  }

  private mutating func fail(_ breaker: Breaker, _ which: Int) throws {
    do throws(BreakerError) {
      try breaker.acquire().fail(error: "refused")
      failures[which] += 1
      reported[which] += 1
    } catch {
      try expectRejection(error, which)
    }
  }

  private func expectRejection(_ error: BreakerError, _ which: Int) throws {
    guard case .rejected = error else { throw error }
    expect(failures[which] >= FuzzStore.fewestFailures, "opened after \(failures[which]) failures")
  }

  private func check(_ breaker: Breaker, _ which: Int) throws {
    let snapshot = breaker.snapshot()
    expect(
      snapshot.state == .closed || failures[which] >= FuzzStore.fewestFailures,
      "\(snapshot.name) is \(snapshot.state.wireName) after \(failures[which]) failures")
    if which == 0 {
      expect(
        snapshot.state != .closed || failures[0] < FuzzStore.fewestFailures,
        "still closed after \(failures[0]) failures in a row")
    }
    let totals = snapshot.totals
    expect(totals.failures == reported[which], "\(totals.failures), not \(reported[which])")
    for count in [
      totals.successes, totals.ignored, totals.rejections, totals.slow, totals.wouldReject,
      totals.busy, totals.lostCalls,
      snapshot.windowCalls - snapshot.windowFailures, snapshot.windowFailures,
      snapshot.windowCalls - snapshot.windowSlow, snapshot.windowSlow,
    ] {
      expect(count >= 0, "\(snapshot)")
    }
    for store in stores {
      if case .unavailable(let error) = store.health { fatalError("\(error)") }
    }
  }

  /// Checks after the damage that each breaker closes if it is open, opens when it must, and closes
  /// again.
  mutating func finish() throws {
    for (which, breaker) in breakers[0].enumerated() {
      try close(breaker, which)
      // Moves everything that was damaged out of every window.
      clock.advance(by: FuzzStore.window + FuzzStore.window)
      for _ in 0..<20 { try fail(breaker, which) }
      expect(breaker.state == .open, "\(breaker.name) stays closed")
      try close(breaker, which)
    }
    for store in stores { store.close() }
  }

  private mutating func close(_ breaker: Breaker, _ which: Int) throws {
    guard breaker.state != .closed else { return }
    clock.advance(by: FuzzStore.openFor)
    try succeed(breaker, which)
    try check(breaker, which)
    expect(breaker.state == .closed, "\(breaker.name) stays open")
  }
}
