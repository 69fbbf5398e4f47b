import FaultShim
import Glibc
import SharedBreaker
import Synchronization
import TestSupport

/// Scenarios of reading, and of the work that is done besides calls.
extension FaultScenario {
  static let looking = [
    FaultScenario("snapshot", prepare: open) {
      guard try $0.store.snapshot(of: "api")?.state == .open else { throw Wrong("it is open") }
    },
    FaultScenario("state", prepare: open, ready: seen) {
      guard $0.breaker.state == .open else { throw Wrong("it is open") }
    },
    FaultScenario("list", prepare: open) {
      guard try $0.store.names() == ["api"], try $0.store.snapshots().count == 1 else {
        throw Wrong("there is one")
      }
    },
    FaultScenario("history", prepare: open) {
      guard try $0.store.history().count == 1 else { throw Wrong("it was opened once") }
    },
    FaultScenario("declarations", prepare: open) {
      guard try $0.store.declarations(of: "api").count == 1 else { throw Wrong("there is one") }
    },
  ]

  static let upkeep = [
    FaultScenario("close", prepare: closed, ready: { try $0.succeed() }, act: { $0.store.close() }),
    // A process that has lost the store comes back to it, or stays without it.
    FaultScenario(
      "return", prepare: failing,
      ready: { play in
        fault_arm(fault_any, fault_input_output, 1, 1)
        try play.fail()
        fault_disarm()
        play.wait(seconds: 1)
      }, act: { try $0.succeed() }),
    // The once-a-second check in the next call finds that the file is gone.
    FaultScenario(
      "deleted-file", prepare: failing,
      ready: { play in
        for part in ["", "-wal", "-shm", "-counters"] { Files.removeAll(play.path + part) }
        play.wait(seconds: 1)
      }, act: { try $0.breaker.trip() }),
    FaultScenario("checkpoint", prepare: withLongLog) { try $0.fail() },
  ]

  /// Prepares a log that the next commit makes long enough for a checkpoint.
  @Sendable static func withLongLog(_ play: Play) throws {
    try closed(play)
    let update = "UPDATE filler SET bytes = randomblob(100000);"
    try Database.rows(
      play.path,
      """
      PRAGMA wal_autocheckpoint = 0; CREATE TABLE filler (bytes BLOB);
      INSERT INTO filler VALUES (NULL); \(String(repeating: update, count: 41))
      """)
  }
}
