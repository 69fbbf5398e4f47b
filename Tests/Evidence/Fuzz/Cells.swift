/// Values that the store's own code would never write into its tables.
enum Cells {
  private static let columns: [(table: String, columns: [String])] = [
    ("breaker", numbersOfBreaker + textsOfBreaker + blobsOfBreaker), ("store", ["identity"]),
    (
      "event",
      [
        "id", "at_ms", "name", "kind", "from_word", "to_word", "reason", "previous", "origin",
        "begins_outage",
      ]
    ),
    ("declaration", ["policy", "declared_at_ms", "pid", "program"]),
    ("migration", ["number", "name", "checksum"]),
    ("fleet", ["fleet", "host", "stamp", "epoch", "number", "entry", "is_connected"]),
    ("fleet_command", commands + ["aspect", "is_in_force"]), ("fleet_outbox", commands + ["id"]),
    (
      "lease",
      ["id", "generation", "pid", "start_ticks", "pid_namespace", "deadline_ns", "began_at_ns"]
    ),
  ]
  private static let numbersOfBreaker = [
    "id", "revision", "boot", "state", "generation", "mode", "mode_until_ns", "mode_length_ns",
    "consecutive_failures", "streak_started_at_ns", "counted_failure_at_ns", "last_failure_at_ms",
    "open_until_ns", "open_length_ns", "opened_at_ms", "growth", "closed_at_ns", "trips",
    "last_lease", "probe_successes", "probe_failures", "successes", "rejections", "counters_key",
    "counted_successes", "counted_slow", "era", "created_at_ms", "changed_at_ms", "leases",
    "extended_at_ms", "suspected_at_ns", "is_open_time_named", "usual_probe_ns",
  ]
  private static let commands = [
    "breaker", "stamp", "host", "action", "mode", "length_ns", "policy_set", "policy_unset",
    "reason", "author", "boot", "given_at_ns", "given_at_ms",
  ]
  private static let textsOfBreaker = [
    "name", "mode_reason", "last_error", "code_policy", "operator_policy",
  ]
  private static let blobsOfBreaker = ["failure_times", "call_window", "reporters", "outage_times"]

  /// Returns SQL that changes one cell, or that cell in all rows, bypassing the checks of the
  /// tables.
  static func statement(_ bytes: inout FuzzBytes) -> String {
    let (table, columns) = columns[bytes.number(below: columns.count)]
    let column = columns[bytes.number(below: columns.count)]
    let value = blobsOfBreaker.contains(column) ? blob(&bytes) : value(&bytes)
    let row = bytes.number(below: 8)
    let place = row == 0 ? "" : " WHERE \(rowid(of: table)) = \(row)"
    return "PRAGMA ignore_check_constraints=ON; UPDATE \(table) SET \(column) = \(value)\(place)"
  }

  private static func rowid(of table: String) -> String {
    switch table {
    case "migration": "number"
    case "declaration", "lease", "fleet_command": "breaker"
    default: "id"
    }
  }

  private static func value(_ bytes: inout FuzzBytes) -> String {
    switch bytes.number(below: 4) {
    case 0: "NULL"
    case 1: "CAST(\(hexadecimal(bytes.bytes(bytes.number(below: 32)))) AS TEXT)"
    default: "\(Int64(bitPattern: bytes.word()))"
    }
  }

  /// Returns 64-bit integers, least significant byte first, with a few bytes more or fewer.
  private static func blob(_ bytes: inout FuzzBytes) -> String {
    var blob: [UInt8] = []
    for _ in 0..<bytes.number(below: 64) {
      let word = bytes.word()
      blob += (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64($0 * 8)) }
    }
    return hexadecimal(blob + bytes.bytes(bytes.number(below: 8)))
  }

  private static func hexadecimal(_ bytes: [UInt8]) -> String {
    "x'" + bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() + "'"
  }
}
