import Glibc
@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// A store in which something has happened, and what `doctor` says about it.
struct Clinic {
  let directory: TemporaryDirectory
  var store: String { directory.store }
  var folder: String { directory.file("state") }

  init() throws {
    directory = try TemporaryDirectory()
    for words in [
      ["policy", "pay", "--set", "open-for=1h", "--set", "max-failures=2"], ["trip", "pay"],
      ["run", "mail", "--max-failures", "3", "--", "false"], ["run", "mail", "--", "true"],
      ["force", "mail", "forced_open", "--reason", "new disks"],
    ] {
      _ = cbctl(words)
    }
  }

  @discardableResult
  func cbctl(_ words: [String]) -> Answer {
    let recorder = Recorder()
    let ending = ControlKit.run(
      arguments: ["--store", store] + words, console: recorder.console())
    return Answer(code: ending.code, output: recorder.output, errors: recorder.errors)
  }

  func doctor(_ options: String...) -> Answer { cbctl(["doctor"] + options) }

  /// The first word of the line of a check, and the whole line.
  func line(_ check: String, of answer: Answer) -> (word: Substring, text: Substring) {
    for line in answer.output.split(separator: "\n") {
      let words = line.split(separator: " ", maxSplits: 2)
      if words.count == 3, words[1] == check { return (words[0], line) }
    }
    return ("none", "\(answer)")
  }

  /// Makes the store a host of a fleet, with two commands that have not been passed on yet.
  func joinFleet() throws {
    let store = SharedStore(path: store)
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    _ = try relay.apply([], position: FleetPosition(epoch: "e", number: 1, entry: "1-0"))
    try store.breaker("pay").force(.observe, scope: .fleet)
    try store.breaker("mail").force(.forcedOpen, reason: "new disks", scope: .fleet)
    store.close()
  }

  /// Whether all checks are well, except that no relay runs for a store that belongs to a fleet.
  func isWell(_ answer: Answer) -> Bool {
    let complaints = answer.output.split(separator: "\n").filter {
      $0.hasPrefix("warn") || $0.hasPrefix("BAD")
    }
    return complaints.allSatisfy { $0.hasPrefix("warn  fleet ") && $0.contains(": no relay runs") }
      && answer.code == (complaints.isEmpty ? 0 : 1)
  }

  /// Makes a call under a limit, which makes the file of the slots.
  func useLimit() { cbctl(["run", "gpu", "--max-concurrent", "2", "--", "true"]) }

  func sql(_ sql: String) throws { try Database.rows(store, sql) }

  /// A deadline in the near future, on the boot clock.
  static var soon: Int64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_BOOTTIME, &time)
    return (Int64(time.tv_sec) + 10) * 1_000_000_000
  }

  /// Gives the breaker `pay` a probe, with the pid of its owner and its deadline as SQL.
  func addLease(_ ownerAndDeadline: String, counted: Bool = true) throws {
    var status = stat()
    _ = unsafe stat("/proc/self/ns/pid", &status)
    try sql(
      """
      INSERT INTO lease (breaker, id, generation, start_ticks, pid_namespace, pid, deadline_ns)
        SELECT id, 1, generation, 5, \(status.st_ino), \(ownerAndDeadline) FROM breaker
        WHERE name = 'pay';
      UPDATE breaker SET leases = leases + \(counted ? 1 : 0) WHERE name = 'pay'
      """)
  }

  /// The names, metadata and checksums of all files in the store's folder.
  func everything() throws -> [String] {
    let text = try Child.run(
      "/bin/sh",
      ["-c", "cd '\(folder)' && stat -c '%n %F %a %u %g %s %i %y' . * && sha256sum *"])
    return text.split(separator: "\n").map { String($0) }
  }

  /// Overwrites bytes of a file of the store.
  func damage(_ suffix: String = "", at offset: Int, count: Int) throws {
    var bytes = try Files.read(store + suffix)
    for index in offset..<min(offset + count, bytes.count) { bytes[index] = 0x5A }
    try Files.overwrite(store + suffix, bytes)
  }

  /// Replaces the store with a copy made by `VACUUM INTO`, which has no write-ahead log.
  func putCopyInPlace() throws {
    let copy = directory.file("copy")
    try sql("VACUUM INTO '\(copy)'")
    for suffix in ["", "-wal", "-shm"] { Files.removeAll(store + suffix) }
    try Files.changeMode(copy, to: 0o600)
    try Files.rename(copy, to: store)
  }

  /// Moves the log into the file, and removes the log and its index as SQLite does.
  func fold() throws { try Database.fold(store) }
}

extension Stage {
  /// Damages the first page of the history; breakers can still be read and the file can be locked.
  func damageHistory() throws {
    let root = try Database.value(
      store, "SELECT rootpage FROM sqlite_schema WHERE name = 'event'")
    try Database.rows(store, "PRAGMA wal_checkpoint(TRUNCATE)")
    var bytes = try Files.read(store)
    let start = (try #require(Int(root)) - 1) * 1_024
    for index in start..<start + 1_024 { bytes[index] = 0x5A }
    try Files.overwrite(store, bytes)
  }
}
