internal import BreakerCore
public import BreakerStore
internal import JSONText

/// Why a text is not the backup of a breaker.
public struct BackupError: Error, Sendable, Hashable, CustomStringConvertible {
  /// What is wrong with the text, in one line.
  public let description: String
}

/// Backups as JSON, in the format of `cbctl export`; members are only ever added.
extension BreakerBackup {
  private static let version: Int64 = 1

  /// Reads a backup that ``json(at:)`` or `cbctl export` has written.
  ///
  /// The time that has passed since then is subtracted from the times that were left. Members that
  /// this version does not know are ignored. The name and the policies are checked by
  /// ``validate()`` and by ``SharedStore/restore(_:replacing:)``.
  ///
  /// - Parameters:
  ///   - text: The object, and nothing else.
  ///   - now: The time to which the times that are left refer.
  /// - Throws: `BackupError` if the text is not a JSON object, or if a member is missing or has an
  ///   invalid value.
  public init(
    json text: String, at now: BreakerTimestamp = StoreClock.system.wallTime
  ) throws(BackupError) {
    let members = try Members(text)
    let version = try members.number("version")
    guard version == Self.version else {
      let found = version.map { "\($0)" } ?? "null"
      throw BackupError(
        description: "it has version \(found), and only version \(Self.version) can be read")
    }
    guard let name = try members.text("name") else { throw members.wrong("name") }
    guard let state = try members.text("state").flatMap({ BreakerState(wireName: $0) }) else {
      throw members.wrong("state")
    }
    guard let mode = try members.text("mode").flatMap({ BreakerMode(wireName: $0) }) else {
      throw members.wrong("mode")
    }
    guard let written = try members.text("exported_at").flatMap({ BreakerTimestamp($0) }) else {
      throw members.wrong("exported_at")
    }
    let passed = now.millisecondsSince1970 - written.millisecondsSince1970
    func left(_ milliseconds: Int64?) -> Duration? {
      milliseconds.map { .milliseconds(max(0, min($0, $0 - max(0, passed)))) }
    }
    self.init(name: name)
    self.state = state
    openFor = left(try members.number("open_for_ms"))
    self.mode = mode
    modeFor = left(try members.number("mode_for_ms"))
    modeReason = try members.text("mode_reason")
    modeSetBy = try members.text("mode_set_by")
    codePolicy = try members.text("code_policy")
    operatorPolicy = try members.text("operator_policy")
  }

  /// The backup as a JSON object on one line, with all its members.
  ///
  /// - Parameter now: The time to which the times that are left refer.
  /// - Returns: The object, without an end of line.
  public func json(at now: BreakerTimestamp = StoreClock.system.wallTime) -> String {
    JSONValue.object([
      .init("version", .integer(Self.version)),
      .init("exported_at", .string(now.description)),
      .init("name", .string(name)),
      .init("state", .string(state.wireName)),
      .init("open_for_ms", JSONValue(milliseconds: openFor)),
      .init("mode", .string(mode.wireName)),
      .init("mode_for_ms", JSONValue(milliseconds: modeFor)),
      .init("mode_reason", JSONValue(modeReason)),
      .init("mode_set_by", JSONValue(modeSetBy)),
      .init("code_policy", JSONValue(codePolicy)),
      .init("operator_policy", JSONValue(operatorPolicy)),
    ]).text
  }

  /// The members of the object, each of which must be there.
  private struct Members {
    private var values: [String: JSONMember.Value] = [:]

    init(_ text: String) throws(BackupError) {
      do throws(JSONError) {
        for member in try JSONObjectReader.members(of: text, standingFor: "a breaker") {
          values[member.key] = member.value
        }
      } catch {
        throw BackupError(description: error.description)
      }
    }

    func text(_ key: String) throws(BackupError) -> String? {
      switch values[key] {
      case .string(let text): return text
      case .null: return nil
      case .bool, .number, .nested, nil: throw wrong(key)
      }
    }

    func number(_ key: String) throws(BackupError) -> Int64? {
      switch values[key] {
      case .null: return nil
      case .number(let text):
        guard let number = Int64(text), number >= 0 else { throw wrong(key) }
        return number
      case .bool, .string, .nested, nil: throw wrong(key)
      }
    }

    func wrong(_ key: String) -> BackupError {
      let what = values[key] == nil ? "is missing" : "is not valid"
      return BackupError(description: "its \(key) \(what)")
    }
  }
}
