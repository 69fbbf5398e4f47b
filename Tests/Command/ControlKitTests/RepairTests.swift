import Glibc
@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// Every trouble that a repair fixes, and those that it leaves alone.
@Suite struct RepairTests {
  struct Trouble: CustomTestStringConvertible, Sendable {
    var testDescription: String
    var check: String
    var word = "warn"
    var cause: @Sendable (Clinic) throws -> Void
  }

  static let troubles = [
    Trouble(testDescription: "a log that others may read", check: "files") {
      try Files.changeMode($0.store + "-wal", to: 0o644)
    },
    Trouble(testDescription: "a store that others may read", check: "files") {
      try Files.changeMode($0.store, to: 0o604)
    },
    Trouble(testDescription: "a link in the log's place", check: "files", word: "BAD") {
      try $0.fold()
      try Files.link($0.store + "-wal", to: "/etc/passwd")
    },
    Trouble(testDescription: "a lock file that others may read", check: "files") {
      try Files.changeMode($0.store + "-lock", to: 0o644)
    },
    Trouble(testDescription: "a link in the lock file's place", check: "files", word: "BAD") {
      Files.removeAll($0.store + "-lock")
      try Files.link($0.store + "-lock", to: "/etc/passwd")
    },
    Trouble(testDescription: "a store that is not its directory's group's", check: "files") {
      try Files.changeMode($0.folder, to: 0o2770)
    },
    Trouble(testDescription: "a store that lost its group, as its lock file tells", check: "files")
    {
      try Files.changeMode($0.folder, to: 0o770)
      try Files.changeMode($0.store + "-lock", to: 0o660)
    },
    Trouble(testDescription: "a directory that all may write to", check: "directory", word: "BAD") {
      try Files.changeMode($0.folder, to: 0o777)
    },
    Trouble(testDescription: "a directory without the group's rights", check: "directory") {
      for suffix in ["", "-wal", "-shm", "-counters", "-lock"] {
        try Files.changeMode($0.store + suffix, to: 0o660)
      }
    },
    Trouble(testDescription: "counters of nobody", check: "counters") {
      try $0.damage("-counters", at: 0, count: 40)
    },
    Trouble(testDescription: "counters that were cut off", check: "counters", word: "BAD") {
      try Files.truncate($0.store + "-counters", to: 70_000)
    },
    Trouble(testDescription: "slots of nobody", check: "slots") {
      $0.useLimit()
      try $0.damage("-slots", at: 0, count: 40)
    },
    Trouble(testDescription: "slots that were cut off", check: "slots", word: "BAD") {
      $0.useLimit()
      try Files.truncate($0.store + "-slots", to: 200_000)
    },
    Trouble(testDescription: "a log without its index", check: "log") {
      Files.removeAll($0.store + "-shm")
    },
    Trouble(testDescription: "a store without a write-ahead log", check: "journal") {
      try $0.sql("PRAGMA journal_mode=DELETE")
    },
    Trouble(testDescription: "a copy that VACUUM INTO has made", check: "journal") {
      try $0.putCopyInPlace()
    },
    Trouble(testDescription: "a damaged page", check: "integrity", word: "BAD") {
      try $0.fold()
      try $0.damage(at: 3_072, count: 9_000)
    },
    Trouble(testDescription: "a file of other bytes", check: "integrity", word: "BAD") {
      try $0.fold()
      try Files.write($0.store, Array(repeating: 0x5A, count: 9_000))
    },
    Trouble(testDescription: "a file that was cut off", check: "integrity", word: "BAD") {
      try $0.fold()
      try Files.truncate($0.store, to: 6_000)
    },
    Trouble(testDescription: "numbers out of range", check: "rows") {
      try $0.sql("UPDATE breaker SET trips = -7, successes = 9223372036854775807")
    },
    Trouble(testDescription: "words that are none", check: "rows") {
      try $0.sql("UPDATE breaker SET code_policy = 'frob=9', operator_policy = 'probes=many'")
    },
    Trouble(testDescription: "a name that is none", check: "rows") {
      try $0.sql("UPDATE breaker SET name = CAST(x'1B5B326AFF' AS TEXT) WHERE name = 'pay'")
    },
    Trouble(testDescription: "rows of nobody", check: "rows") {
      try $0.sql("INSERT INTO lease (breaker, id, deadline_ns) VALUES (999, 1, 1)")
    },
    Trouble(testDescription: "a probe that its breaker does not count", check: "rows") {
      try $0.addLease("NULL, 9223372036854775807", counted: false)
    },
    Trouble(testDescription: "a probe that is not there", check: "rows") {
      try $0.sql("UPDATE breaker SET leases = 2")
    },
    Trouble(testDescription: "commands of a fleet that are none", check: "rows") {
      try $0.joinFleet()
      try $0.sql(
        "UPDATE fleet SET stamp = 9223372036854775807; UPDATE fleet_command SET stamp = -1")
    },
    Trouble(testDescription: "a relay's lock that others may read", check: "files") {
      try $0.joinFleet()
      try Files.changeMode($0.store + "-relay", to: 0o644)
    },
    Trouble(testDescription: "a lease of a process that is gone", check: "leases", word: "note") {
      try $0.sql("UPDATE breaker SET state = 2 WHERE name = 'pay'")
      try $0.addLease("2147483646, \(Clinic.soon)")
    },
    Trouble(testDescription: "a lease whose time is over", check: "leases", word: "note") {
      try $0.sql("UPDATE breaker SET state = 2 WHERE name = 'pay'")
      try $0.addLease("NULL, 1")
    },
    Trouble(testDescription: "an old lease of a closed breaker", check: "leases", word: "note") {
      try $0.sql("UPDATE breaker SET state = 0 WHERE name = 'pay'")
      try $0.addLease("NULL, 1")
    },
    Trouble(testDescription: "a lease of an earlier boot", check: "leases", word: "note") {
      try $0.addLease("NULL, 9223372036854775807")
      try $0.sql("UPDATE breaker SET boot = boot + 1 WHERE name = 'pay'")
    },
  ]

  @Test(.timeLimit(.minutes(60)), arguments: troubles)
  func `a repair fixes every trouble that the doctor names`(trouble: Trouble) throws {
    let clinic = try Clinic()
    try trouble.cause(clinic)
    let found = clinic.doctor()
    #expect(found.code == (trouble.word == "note" ? 0 : 1), "\(found)")
    let line = clinic.line(trouble.check, of: found)
    #expect(line.word == trouble.word, "\(line.text)")
    #expect(line.text.contains("; repair: "), "\(line.text)")
    let repaired = clinic.doctor("--repair")
    #expect(clinic.isWell(repaired), "\(repaired)")
    let after = clinic.line(trouble.check, of: repaired)
    #expect(after.word == "ok", "\(after.text)")
    #expect(after.text.contains("; repair: done: "), "\(after.text)")
    #expect(clinic.isWell(clinic.doctor()))
    #expect(clinic.cbctl(["run", "pay", "--max-failures", "3", "--", "true"]).code % 75 == 0)
    // A second repair finds nothing to do.
    #expect(!clinic.doctor("--repair").output.contains("done:"))
  }

  @Test func `a repair of a damaged store keeps what can be read`() throws {
    let clinic = try Clinic()
    for number in 0..<200 {
      clinic.cbctl(["policy", "other-\(number)", "--set", "probes=\(number + 1)"])
    }
    try clinic.joinFleet()
    try clinic.fold()
    let root = try Database.value(
      clinic.store, "SELECT rootpage FROM sqlite_schema WHERE name = 'event'")
    try clinic.fold()
    try clinic.damage(at: (try #require(Int(root)) - 1) * 1_024, count: 1_024)
    #expect(clinic.doctor().code == 1)
    let bytes = try Files.read(clinic.store)
    let answer = clinic.doctor("--repair")
    #expect(clinic.isWell(answer), "\(answer)")
    #expect(clinic.line("integrity", of: answer).text.contains("took over 202 breakers"))
    let aside = try clinic.everything().filter {
      $0.contains(".corrupt-20") && $0.contains("regular")
    }
    let name = try #require(aside.first?.split(separator: " ").first)
    #expect(try Files.read(clinic.folder + "/" + name) == bytes)
    let pay = clinic.cbctl(["show", "pay", "--json"]).output
    #expect(pay.contains(#""state":"open""#))
    #expect(pay.contains(#""open-for":"1h""#))
    let mail = clinic.cbctl(["show", "mail", "--json"]).output
    #expect(mail.contains(#""mode":"forced_open","mode_reason":"new disks""#))
    #expect(mail.contains(#""max-failures":3"#))
    #expect(clinic.cbctl(["show", "other-77", "--json"]).output.contains(#""probes":78"#))
    // Messages of the fleet are not read again, and commands that it has not heard yet are not lost.
    let store = SharedStore(path: clinic.store)
    #expect(try store.fleetStanding()?.waiting == 2)
    #expect(try store.fleetStanding()?.position == nil)
    let relay = try #require(try store.claimRelay(fleet: "prod", host: "a"))
    #expect(try relay.commands().map(\.name) == ["mail", "pay"])
    let pending = try relay.pendingCommands().map(\.command)
    #expect(pending.map(\.name) == ["pay", "mail"])
    try store.breaker("pay").reset(scope: .fleet)
    let next = try #require(try relay.pendingCommands().last?.command)
    #expect(pending.allSatisfy { $0.stamp < next.stamp })
  }

  @Test func `each repair keeps the damaged store under a name of its own`() throws {
    let clinic = try Clinic()
    for _ in 0..<3 {
      try clinic.fold()
      try clinic.damage(at: 0, count: 4_000)
      #expect(clinic.doctor("--repair").code == 0)
    }
    let aside = try clinic.everything().filter {
      $0.contains(".corrupt-20") && $0.contains("regular") && !$0.contains("-counters")
        && !$0.contains("-wal") && !$0.contains("-shm")
    }
    #expect(aside.count == 3, "\(aside)")
  }

  @Test(arguments: ["newer", "foreign", "steps"])
  func `a repair changes nothing in a store that it does not understand`(trouble: String) throws {
    let clinic = try Clinic()
    switch trouble {
    case "newer": try clinic.sql("PRAGMA user_version = 999")
    case "foreign":
      Files.removeAll(clinic.folder)
      try Files.makeDirectory(clinic.folder, mode: 0o700)
      try Files.write(clinic.store, [])
      try Files.changeMode(clinic.store, to: 0o600)
      try clinic.sql("CREATE TABLE precious (a)")
    default: try clinic.sql("UPDATE migration SET checksum = 7 WHERE number = 2")
    }
    let before = try Files.read(clinic.store)
    for options in [[], ["--repair"]] {
      let answer = clinic.cbctl(["doctor"] + options)
      #expect(answer.code == 1, "\(answer)")
      #expect(answer.output.contains("; repair: none: "))
      #expect(!answer.output.contains("done: "))
      #expect(try Files.read(clinic.store) == before)
    }
  }

  @Test func `a repair changes no file that has two names`() throws {
    let clinic = try Clinic()
    try clinic.fold()
    let other = clinic.directory.file("other")
    try Files.write(other, [])
    #expect(unsafe link(other, clinic.store + "-wal") == 0)
    let before = try Files.permissions(of: other)
    let answer = clinic.doctor("--repair")
    #expect(answer.code == 1)
    #expect(clinic.line("files", of: answer).text.contains("-wal has 2 names"), "\(answer)")
    #expect(try Files.permissions(of: other) == before)
  }

  @Test(.enabled(if: isSuperuser, "needs root, to give files away"))
  func `a repaired store belongs to the users that could use it before`() throws {
    let clinic = try Clinic()
    unsafe chown(clinic.folder, 54_321, 54_320)
    try Files.changeMode(clinic.folder, to: 0o2770)
    for suffix in ["", "-wal", "-shm", "-counters", "-lock"] {
      unsafe chown(clinic.store + suffix, 54_321, 54_320)
      try Files.changeMode(clinic.store + suffix, to: 0o660)
    }
    let before = try Files.permissions(of: clinic.store)
    try clinic.fold()
    try clinic.damage(at: 0, count: 4_000)
    #expect(clinic.doctor("--repair").code == 0)
    for suffix in ["", "-wal", "-shm", "-counters", "-lock"] {
      #expect(try Files.permissions(of: clinic.store + suffix) == before, "\(suffix)")
    }
  }

  @Test(.enabled(if: isSuperuser, "needs root, to become other users"))
  func `a repair changes nothing of another user's and says so`() async throws {
    let clinic = try Clinic()
    try Files.changeMode(clinic.folder, to: 0o777)
    for suffix in ["", "-wal", "-shm", "-counters", "-lock"] {
      try Files.changeMode(clinic.store + suffix, to: 0o666)
    }
    try Files.changeMode(clinic.store + "-wal", to: 0o644)
    let before = try clinic.everything()
    let path = clinic.store
    await #expect(processExitsWith: .success) { [path = path as String] in
      try become(user: 65_534, group: 65_534)
      let recorder = Recorder()
      let ending = ControlKit.run(
        arguments: ["--store", path, "doctor", "--repair"], console: recorder.console())
      precondition(ending.code == 1, recorder.output)
      let words = "repair: not done: cannot change the mode of \(path)-wal: permission denied"
      precondition(recorder.output.contains(words), recorder.output)
    }
    #expect(try clinic.everything() == before)
  }
}
