import SharedBreaker
import SharedBreakerTesting
import Testing

/// Backups that are written as JSON and read again.
@Suite struct BackupJSONTests {
  private let then = BreakerTimestamp(millisecondsSince1970: 1_700_000_000_000)

  private var backup: BreakerBackup {
    var backup = BreakerBackup(name: "pay \"1\"\u{202E}")
    backup.state = .open
    backup.openFor = .seconds(60)
    backup.openReason = "old disks"
    backup.mode = .forcedOpen
    backup.modeFor = .seconds(3_600)
    backup.modeReason = "new\ndisks"
    backup.modeSetBy = "root"
    backup.codePolicy = "max-failures=3"
    backup.operatorPolicy = "probes=2"
    return backup
  }

  @Test func `a backup that is read from JSON is the one that was written`() throws {
    for written in [backup, BreakerBackup(name: "é")] {
      let json = written.json(at: then)
      #expect(!json.contains("\n"))
      #expect(try BreakerBackup(json: json, at: then) == written)
    }
  }

  @Test func `the time since a backup was written is taken off the times that were left`() throws {
    let later = BreakerTimestamp(millisecondsSince1970: then.millisecondsSince1970 + 90_000)
    let read = try BreakerBackup(json: backup.json(at: then), at: later)
    #expect(read.openFor == .zero)
    #expect(read.modeFor == .seconds(3_510))
    // A clock that was set back leaves the times as they were.
    #expect(try BreakerBackup(json: backup.json(at: later), at: then) == backup)
  }

  @Test func `a backup in JSON moves a breaker to another store`() throws {
    let host = TestHost(), other = TestHost()
    try host.store().breaker("api", policy: BreakerPolicy(maxFailures: 3)).force(.forcedOpen)
    let now = host.clock.storeClock.wallTime
    let json = try #require(try host.store().snapshot(of: "api")).backup.json(at: now)
    let read = try BreakerBackup(json: json, at: now)
    try other.store().restore([read], replacing: false)
    #expect(try other.store().snapshot(of: "api")?.mode == .forcedOpen)
    #expect(try other.store().snapshot(of: "api")?.policy.maxFailures == 3)
  }

  @Test(arguments: [
    ("", "not a JSON object of a breaker"), ("[]", "not a JSON object of a breaker"),
    ("{}", "its version is missing"), (#"{"version":2}"#, "it has version 2"),
    (#"{"version":1,"name":null}"#, "its name is not valid"),
    (#"{"version":1,"name":"x"}"#, "its state is missing"),
  ])
  func `an error says what is wrong with a text`(text: String, why: String) {
    do {
      _ = try BreakerBackup(json: text)
      Issue.record("\(text) was read")
    } catch {
      #expect(error.description.contains(why), "\(error)")
    }
  }
}
