import FaultShim
import Glibc
import SharedBreaker
import TestShim
import TestSupport

/// Kills a process at every step of the repair of a damaged store, and looks at what is left.
final class RepairKill {
  private let directory: String
  private let path: String
  private var template: [(suffix: String, bytes: [UInt8])] = []
  private(set) var count = 0
  private(set) var complaints: [String] = []

  init(in directory: String) {
    self.directory = directory
    path = directory + "/state/breakers.db"
  }

  func run(stride: Int) throws {
    try prepare()
    // Once without a kill. It also makes Swift create all types before the first fork.
    try putInPlace()
    try check()
    guard Files.names(in: StoreDirectory.of(path)).contains(where: { $0.contains(".corrupt-") })
    else { throw Wrong("there was nothing to repair") }
    // Each change of a name has its turn, whatever else is left out.
    for (kind, distance) in [(fault_call_name, 1), (fault_any, stride)] {
      var step = 1
      while try kill(at: step, of: kind) {
        count += 1
        do { try check() } catch { complaints.append("killed at \(kind) \(step): \(error)") }
        step += distance
      }
    }
  }

  /// Prepares a store of which a table is damaged, and whose forced mode is only in its log.
  private func prepare() throws {
    let play = try Play(in: directory, clock: HandClock())
    try play.declare()
    try play.store.breaker("other").trip()
    play.store.close()
    let root = try Database.value(
      path, "SELECT rootpage FROM sqlite_schema WHERE name = 'declaration'")
    try Database.rows(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    let later = try Play(in: directory, clock: HandClock())
    try later.store.breaker("api").force(.forcedOpen, reason: "night")
    later.store.close()
    template = try ["", "-wal", "-counters"].map { ($0, try Files.read(path + $0)) }
    let start = ((Int(root) ?? 1) - 1) * 1_024
    for index in start..<start + 1_024 { template[0].bytes[index] = 0x5A }
    guard template[1].bytes.count > 0 else { throw Wrong("the log is empty") }
    Files.removeAll(StoreDirectory.of(path))
  }

  private func putInPlace() throws {
    Files.removeAll(StoreDirectory.of(path))
    try Files.makeDirectory(StoreDirectory.of(path), mode: 0o700)
    for (suffix, bytes) in template { try Files.write(path + suffix, bytes) }
  }

  /// Returns whether the repair has as many steps.
  private func kill(at step: Int, of kind: fault_kind) throws -> Bool {
    try putInPlace()
    let child = ts_fork()
    if child == 0 {
      ts_limit(60)
      fault_arm(kind, fault_killed, Int32(step), 0)
      let findings = try? SharedStore(path: path).repair()
      _exit(findings == nil ? 1 : 0)
    }
    var status: Int32 = 0
    while unsafe waitpid(child, &status, 0) < 0, errno == EINTR {}
    guard status == 0 || status == SIGKILL else { throw Wrong("the repair ended with \(status)") }
    return status == SIGKILL
  }

  /// Checks that the next program finds the store, old or new, and that it can be repaired.
  private func check() throws {
    let store = SharedStore(path: path)
    defer { store.close() }
    try expectMode(store, "the next program")
    let findings = try store.repair().filter { !$0.isWell && $0.check != "leftovers" }
    guard findings.isEmpty else { throw Wrong("the next repair leaves \(findings)") }
    try expectMode(store, "after the next repair")
    let late = SharedStore(path: path)
    try late.connectToExisting()
    try expectMode(late, "a program that starts later")
    late.close()
    let integrity = try Database.integrity(path)
    guard integrity == "ok" else { throw Wrong("the new store is damaged: \(integrity)") }
  }

  private func expectMode(_ store: SharedStore, _ who: String) throws {
    try store.connectToExisting()
    guard try store.snapshot(of: "api")?.mode == .forcedOpen else {
      throw Wrong("\(who) does not find the forced mode")
    }
  }
}
