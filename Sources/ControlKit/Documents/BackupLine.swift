import BreakerDocuments
import JSONText
import SharedBreaker

/// One breaker as a line of `cbctl export`; members are only ever added.
enum BackupLine {
  static let version: Int64 = 1

  static func text(of backup: BreakerBackup, at now: BreakerTimestamp) -> String {
    JSONValue.object([
      .init("version", .integer(version)),
      .init("exported_at", BreakerDocument.time(now)),
      .init("name", .string(backup.name)),
      .init("state", .string(backup.state.wireName)),
      .init("open_for_ms", JSONValue(milliseconds: backup.openFor)),
      .init("mode", .string(backup.mode.wireName)),
      .init("mode_for_ms", JSONValue(milliseconds: backup.modeFor)),
      .init("mode_reason", JSONValue(backup.modeReason)),
      .init("mode_set_by", JSONValue(backup.modeSetBy)),
      .init("code_policy", JSONValue(backup.codePolicy)),
      .init("operator_policy", JSONValue(backup.operatorPolicy)),
    ]).text + "\n"
  }

  /// Reads a line, and subtracts the time since it was written from the times that were left.
  static func backup(of line: String, at now: BreakerTimestamp) throws(JSONError) -> BreakerBackup {
    var fields: [String: JSONMember.Value] = [:]
    for member in try JSONObjectReader.members(of: line, standingFor: "a breaker") {
      fields[member.key] = member.value
    }
    let reader = FieldReader(fields: fields)
    let version = try reader.number("version")
    guard version == Self.version else {
      throw JSONError(
        description: "it has version \(version.map { "\($0)" } ?? "null"), and this cbctl reads "
          + "version \(Self.version)")
    }
    guard let name = try reader.text("name") else { throw reader.wrong("name") }
    var backup = BreakerBackup(name: name)
    guard let state = try reader.text("state").flatMap({ BreakerState(wireName: $0) }) else {
      throw reader.wrong("state")
    }
    guard let mode = try reader.text("mode").flatMap({ BreakerMode(wireName: $0) }) else {
      throw reader.wrong("mode")
    }
    guard let exported = try reader.text("exported_at").flatMap({ BreakerTimestamp($0) }) else {
      throw reader.wrong("exported_at")
    }
    let passed = now.millisecondsSince1970 - exported.millisecondsSince1970
    func left(_ milliseconds: Int64?) -> Duration? {
      milliseconds.map { .milliseconds(max(0, min($0, $0 - max(0, passed)))) }
    }
    backup.state = state
    backup.openFor = left(try reader.number("open_for_ms"))
    backup.mode = mode
    backup.modeFor = left(try reader.number("mode_for_ms"))
    backup.modeReason = try reader.text("mode_reason")
    backup.modeSetBy = try reader.text("mode_set_by")
    backup.codePolicy = try reader.text("code_policy")
    backup.operatorPolicy = try reader.text("operator_policy")
    return backup
  }

  private struct FieldReader {
    var fields: [String: JSONMember.Value]

    func text(_ key: String) throws(JSONError) -> String? {
      switch fields[key] {
      case .string(let text): return text
      case .null: return nil
      case .bool, .number, .nested, nil: throw wrong(key)
      }
    }

    func number(_ key: String) throws(JSONError) -> Int64? {
      switch fields[key] {
      case .null: return nil
      case .number(let text):
        guard let number = Int64(text), number >= 0 else { throw wrong(key) }
        return number
      case .bool, .string, .nested, nil: throw wrong(key)
      }
    }

    func wrong(_ key: String) -> JSONError {
      let what = fields[key] == nil ? "is missing" : "is not valid"
      return JSONError(description: "its \(key) \(what)")
    }
  }
}
