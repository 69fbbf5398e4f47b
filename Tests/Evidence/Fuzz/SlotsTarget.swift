import BreakerDocuments
import ControlKit
import Glibc
import SharedBreaker
import SharedBreakerTesting
import TestSupport

@testable import BreakerStore

/// Damages the shared slots in every way while calls are under way in them.
///
/// Whatever is written there, no caller waits or ends because of it, everything that is shown is possible, and a
/// repair brings the limit back.
enum SlotsTarget {
  static func run(_ bytes: [UInt8]) {
    do {
      var run = try SlotsRun()
      var bytes = FuzzBytes(bytes)
      for _ in 0..<64 where !bytes.isEmpty { try run.step(&bytes) }
      try run.finish()
    } catch {
      fatalError("\(error)")
    }
  }
}

private struct SlotsRun {
  private static let units = 3
  private static let name = "gpu"
  private static let policy = BreakerPolicy(
    maxFailures: 5, openFor: FuzzStore.openFor, maxConcurrent: units, reserve: 1,
    lostCalls: .failure)

  private let clock: ManualClock
  private let file = FuzzStore.path + "-slots"

  /// Two objects that use the store like two processes.
  private var stores: [SharedStore]
  private var breakers: [Breaker]
  private var permits: [SharedPermit] = []

  init() throws {
    let clock = try FuzzStore.restore(
      database: FuzzStore.seed[0], log: FuzzStore.seed[1], counters: FuzzStore.seed[2])
    self.clock = clock
    let stores = (0..<2).map { _ in
      SharedStore(path: FuzzStore.path, options: StoreOptions(clock: clock.storeClock))
    }
    self.stores = stores
    breakers = try stores.map { try $0.breaker(Self.name, policy: Self.policy) }
    for breaker in breakers { try breaker.acquire().succeed() }
  }

  mutating func step(_ bytes: inout FuzzBytes) throws {
    let action = bytes.number(below: 12)
    let user = bytes.number(below: 2)
    switch action {
    case 0...4: try overwrite(&bytes)
    case 5: try replaceFile(with: &bytes)
    case 6: clock.advance(by: .milliseconds(bytes.number(below: 20_000)))
    case 7: stores[user].close()
    case 8: if !permits.isEmpty { permits.removeFirst().succeed() }
    case 9: try look()
    default: try begin(breakers[user], &bytes)
    }
    check(breakers[user].snapshot())
  }

  /// Where something of a kind lies, which `SlotFile` says.
  private func place(_ bytes: inout FuzzBytes) -> (offset: Int, words: Int) {
    let block = SlotFile.offset(ofBlock: 0)
    let line = bytes.number(below: 8) * SlotFile.bytesOfLine
    let word = bytes.number(below: 8) * 8
    return switch bytes.number(below: 8) {
    case 0: (block + SlotFile.offsetOfHeader + bytes.number(below: 41) * 8, 24)
    case 1, 2: (block + SlotFile.offsetOfSlots + line + word, 8 * Self.units)
    case 3: (block + SlotFile.offsetOfHeader - 64 + word, 8 - word / 8)
    case 4: (block + SlotFile.offsetOfWaiters + line + word, 64)
    case 5: (SlotFile.offsetOfBlocks + word, SlotFile.blocks - 8)
    case 6: (SlotFile.offsetOfOwners, SlotFile.owners)
    default: (SlotFile.offsetOfOwnerLines, SlotFile.owners * SlotFile.bytesOfLine / 8)
    }
  }

  private func overwrite(_ bytes: inout FuzzBytes) throws {
    let (offset, most) = place(&bytes)
    let word = bytes.word()
    let count = bytes.number(below: 2) == 0 ? 1 : most
    let descriptor = unsafe open(file, O_WRONLY | O_CLOEXEC)
    // A file that does not exist cannot be damaged.
    guard descriptor >= 0 else { return }
    defer { close(descriptor) }
    let words = [UInt64](repeating: word, count: count)
    let written = unsafe pwrite(descriptor, words, count * 8, offset)
    expect(written == count * 8, "pwrite: \(errno)")
  }

  /// Replaces or deletes the file that is in use.
  private func replaceFile(with bytes: inout FuzzBytes) throws {
    guard bytes.number(below: 3) != 0, Files.exists(file) else { return Files.removeAll(file) }
    var copy = try Files.read(file)
    for _ in 0..<bytes.number(below: 8) {
      copy[(bytes.number(below: 65_536) * 7 + bytes.number(below: 40)) % copy.count] = bytes.byte()
    }
    let isShort = bytes.number(below: 2) == 0
    try Files.write(
      file + ".other", isShort ? Array(copy.prefix(bytes.number(below: 65_536) * 7)) : copy)
    try Files.rename(file + ".other", to: file)
  }

  private mutating func begin(_ breaker: Breaker, _ bytes: inout FuzzBytes) throws {
    if permits.count > 8 { permits.removeFirst().fail(error: "refused") }
    var caller = breaker.claiming(units: 1 + bytes.number(below: 4))
    if bytes.number(below: 2) == 0 { caller = breaker.claiming(inBackground: true) }
    do throws(BreakerError) { permits.append(try caller.acquire().shared()) } catch {
      guard case .rejected = error else { throw error }
    }
  }

  private func check(_ snapshot: BreakerSnapshot) {
    for count in [
      snapshot.totals.successes, snapshot.totals.failures, snapshot.totals.busy,
      snapshot.totals.lostCalls,
    ] {
      expect(count >= 0, "\(snapshot)")
    }
    expectReadable(JSONValue.object(BreakerDocument.members(of: snapshot)).text)
    guard let limit = snapshot.limit else { return }
    expect(limit.unitsInUse >= 0 && limit.waits.count >= 0, "\(limit)")
    expect(limit.waits.total >= .zero && limit.waits.abandoned >= 0, "\(limit.waits)")
    for one in limit.calls + limit.waiters {
      expect(one.units > 0 && one.units <= SlotFile.slotsOfBlock && one.age >= .zero, "\(one)")
    }
    for store in stores {
      if case .unavailable(let error) = store.health { fatalError("\(error)") }
    }
  }

  /// Runs every command that shows what is under way.
  private func look() throws {
    for words in [["show", Self.name], ["status", "--json"], ["metrics"], ["page"], ["doctor"]] {
      try command(words)
    }
  }

  private func command(_ words: [String]) throws {
    let console = Console(
      output: { _ in .written }, errorOutput: { _ in .written })
    let ending = ControlKit.run(
      arguments: ["--store", FuzzStore.path] + words, console: console,
      options: StoreOptions(clock: clock.storeClock))
    expect([0, 1].contains(ending.code), "\(words): \(ending.code)")
  }

  /// Checks that after a repair as many calls are under way as the limit permits.
  mutating func finish() throws {
    while !permits.isEmpty { permits.removeFirst().succeed() }
    for store in stores { store.close() }
    // As a process ends: what it had is free then, though damage may have kept it from giving it back.
    (breakers, stores) = ([], [])
    try command(["doctor", "--repair"])
    let store = SharedStore(path: FuzzStore.path, options: StoreOptions(clock: clock.storeClock))
    let breaker = try store.breaker(Self.name, policy: Self.policy)
    try breaker.reset()
    for _ in 0..<Self.units { permits.append(try breaker.acquire().shared()) }
    do throws(BreakerError) {
      try breaker.acquire().succeed()
      fatalError("more calls than the limit permits, after a repair")
    } catch {
      expect(error.rejection?.cause == .busy, "\(error)")
    }
    while !permits.isEmpty { permits.removeFirst().succeed() }
    check(breaker.snapshot())
    store.close()
  }
}
