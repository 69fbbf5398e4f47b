import FaultShim
import Glibc
import SharedBreaker
import TestSupport

/// Makes the steps of a scenario fail, one after the other.
final class Sweep {
  private let scenario: FaultScenario
  private let directory: String
  private let clock = HandClock()
  private var template: Template?
  private var after = ""
  private(set) var runs = 0
  private(set) var strikes = 0
  private(set) var slowest: Duration = .zero
  private(set) var complaints: [String] = []

  /// How long a call may take before it counts as waiting forever.
  ///
  /// Its own waits are some of 20 ms and, for the counters, one of half a second. The rest is for a
  /// busy machine.
  private static let bound = Duration.seconds(60)

  /// How many steps apart single faults are, and how many steps apart lasting faults begin.
  private let stride: Int
  private let lasting: Int

  init(_ scenario: FaultScenario, in directory: String, stride: Int, lasting: Int) {
    self.stride = stride
    self.lasting = lasting
    self.scenario = scenario
    self.directory = directory
  }

  /// The store that each run starts with.
  private struct Template {
    var files: [(suffix: String, bytes: [UInt8])]
    var time: Int64
  }

  func run(_ faults: [Fault]) throws {
    template = try makeTemplate()
    after = try runWithoutFault()
    for fault in faults {
      var first = 1
      while try run(fault, at: first) { first += distance(of: fault) }
    }
  }

  /// How many steps apart a fault strikes.
  ///
  /// There are ten times as many allocations as disk operations.
  private func distance(of fault: Fault) -> Int {
    if fault.kind == fault_memory { return 5 * lasting + 1 }
    return fault.isLasting ? lasting : stride
  }

  private func makeTemplate() throws -> Template? {
    guard let prepare = scenario.prepare else { return nil }
    let play = try Play(in: directory, clock: clock)
    try play.store.connect()
    try prepare(play)
    play.store.close()
    let suffixes = ["", "-wal", "-counters"].filter { Files.exists(play.path + $0) }
    let files = try suffixes.map { ($0, try Files.read(play.path + $0)) }
    Files.removeAll(directory + "/state")
    return Template(files: files, time: clock.time)
  }

  private func begin() throws -> (play: Play, before: String) {
    let play = try Play(in: directory, clock: clock)
    if let template {
      clock.time = template.time
      try Files.makeDirectory(directory + "/state", mode: 0o700)
      for (suffix, bytes) in template.files { try Files.write(play.path + suffix, bytes) }
    }
    if let ready = scenario.ready {
      try play.store.connect()
      try play.other.connect()
      try ready(play)
    }
    return (play, try Contents.read(play.path))
  }

  private func end(_ play: Play) throws {
    play.permit = nil
    play.store.close()
    play.other.close()
    let descriptors = Files.openDescriptors(of: directory + "/state")
    if descriptors != 0 { throw Wrong("\(descriptors) descriptors stay open") }
    Files.removeAll(directory + "/state")
  }

  private func runWithoutFault() throws -> String {
    let (play, _) = try begin()
    try scenario.act(play)
    let after = try Contents.read(play.path)
    try end(play)
    return after
  }

  /// Plays the scenario with a fault; false once the fault comes too late to strike.
  private func run(_ fault: Fault, at first: Int) throws -> Bool {
    let (play, before) = try begin()
    fault.arm(at: first)
    let began = ContinuousClock.now
    var refusal: (any Error)?
    do { try scenario.act(play) } catch { refusal = error }
    let took = ContinuousClock.now - began
    let struck = max(play.struck, Int(fault_disarm()))
    runs += 1
    strikes += struck
    slowest = max(slowest, took)
    do {
      if took > Self.bound { throw Wrong("it took \(took)") }
      try check(play, before, refusal)
      try comeBack(play)
    } catch {
      complaints.append("\(fault) \(first): \(error)")
    }
    try end(play)
    return struck > 0
  }

  /// Checks that the act was done or not done as a whole, and that it was done if acknowledged.
  private func check(_ play: Play, _ before: String, _ refusal: (any Error)?) throws {
    if let refusal, !isOfStore(refusal) { throw refusal }
    let now = try Contents.read(play.path)
    let isAcknowledged = refusal == nil && !play.isUnavailable
    // Creating a store and using it are two transactions.
    let isUntouched = now == before || before == Contents.nothing && now.isEmpty
    if scenario.isExact, now != after, isAcknowledged || !isUntouched {
      throw Wrong("\(isAcknowledged ? "acknowledged but not " : "half ")done:\n\(now)\n\(after)")
    }
    let complaints = try Contents.complaints(about: play.path)
    if !complaints.isEmpty { throw Wrong("\(complaints)") }
    guard play.told.agrees(withLost: play.isUnavailable) else {
      throw Wrong("told \(play.told.own), but the health is \(play.store.health)")
    }
  }

  private func isOfStore(_ error: any Error) -> Bool {
    if case BreakerError.store = error { true } else { error is StoreError }
  }

  /// Checks that the process uses the store again at most a second after the disk works again.
  private func comeBack(_ play: Play) throws {
    play.wait(seconds: 1)
    do { try play.succeed() } catch BreakerError.rejected {}
    guard play.store.health == .connected, play.told.agrees(withLost: false) else {
      throw Wrong("it did not come back: \(play.store.health), told \(play.told.own)")
    }
    try play.store.breaker("later").trip()
    guard try play.other.snapshot(of: "later")?.state == .open,
      try play.other.breaker("later").state == .open, play.told.others == 0
    else { throw Wrong("the other process does not see what it does") }
    let complaints = try Contents.complaints(about: play.path)
    if !complaints.isEmpty { throw Wrong("later: \(complaints)") }
  }
}
