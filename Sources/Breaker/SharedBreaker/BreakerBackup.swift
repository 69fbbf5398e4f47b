internal import BreakerCore
public import BreakerStore
internal import JSONText

/// The part of a breaker that it keeps when it moves to another store.
///
/// ```swift
/// let backups = try store.snapshots().map(\.backup)
/// try otherStore.restore(backups, replacing: false)
/// ```
///
/// To keep a backup in a file, write it as JSON with ``json(at:)``, as `cbctl export` does. The JSON shows all of it.
///
/// A backup has the breaker's state, mode and policies. It does not have the history, the totals,
/// the leases, or the counts towards the next trip.
public struct BreakerBackup: Sendable, Hashable {
  /// The name of the breaker.
  public var name: String

  /// The state of the breaker.
  ///
  /// Leases are not kept, so a half-open breaker is restored as open with its open time over.
  public var state = BreakerState.closed

  /// How much longer the breaker stays open; zero if nil.
  package var openFor: Duration?

  /// Why the breaker was tripped by hand.
  package var openReason: String?

  /// How much longer calls are held; nil if they are not.
  public var holdFor: Duration?

  /// Why calls are held.
  public var holdReason: String?

  /// The mode in force.
  public var mode = BreakerMode.automatic

  /// How much longer the mode holds; nil if it holds until it is set again.
  package var modeFor: Duration?

  /// Why the mode was set.
  package var modeReason: String?

  /// The author of the mode.
  package var modeSetBy: String?

  /// The policy that code declared last, such as `open-for=1m probes=2`; nil if none was declared.
  package var codePolicy: String?

  /// The values that an operator has set, in the same form.
  package var operatorPolicy: String?

  /// Describes a closed breaker for which nothing else is set.
  package init(name: String) { self.name = name }

  /// Checks that such a breaker is possible.
  ///
  /// - Throws: `BreakerError` if the name or a policy is not valid.
  public func validate() throws(BreakerError) {
    try Breaker.validate(name: name)
    _ = try words()
  }

  /// The words of its policies, as the library writes them.
  fileprivate func words() throws(BreakerError) -> AgreedWords {
    do throws(PolicyError) {
      return try AgreedWords(code: codePolicy, operator: operatorPolicy).checked()
    } catch {
      throw .invalidPolicy(name: name, error)
    }
  }
}

extension BreakerSnapshot {
  /// The part of the breaker that it keeps when it moves to another store.
  public var backup: BreakerBackup {
    var backup = BreakerBackup(name: name)
    backup.state = state
    backup.openFor = openEndsIn
    backup.openReason = openReason
    if let hold, hold.endsIn > .zero {
      backup.holdFor = hold.endsIn
      backup.holdReason = hold.reason
    }
    backup.mode = mode
    backup.modeFor = modeEndsIn
    backup.modeReason = modeReason
    backup.modeSetBy = modeSetBy
    backup.codePolicy = agreed.words.code
    backup.operatorPolicy = agreed.words.operator
    return backup
  }
}

extension SharedStore {
  /// Restores breakers from their backups, all in one transaction.
  ///
  /// Either all of them are restored or none, even if the process dies. A breaker that is replaced
  /// keeps its history and its totals, and its declared policy if the backup has none.
  ///
  /// Other processes that write wait meanwhile, for 50 to 100 µs for each breaker. Restore several
  /// thousand breakers in parts, so that they do not wait for longer than their lock timeout.
  ///
  /// - Parameters:
  ///   - backups: The backups, each name once.
  ///   - replacing: Whether breakers with these names may exist already.
  /// - Throws: `BreakerError.alreadyExist` if there are such breakers and `replacing` is false, and
  ///   another `BreakerError` if a backup is not valid or the store cannot be used. Then nothing
  ///   was changed.
  public func restore(_ backups: [BreakerBackup], replacing: Bool) throws(BreakerError) {
    var steps: [NamedStep] = []
    for backup in backups {
      try Breaker.validate(name: backup.name)
      let words = try backup.words()
      steps.append(NamedStep(backup.name) { backup.apply(to: &$0, words) })
    }
    let present: [String]
    do throws(StoreError) {
      present = try engine.step(together: steps, mustBeNew: !replacing)
    } catch {
      throw .store(error)
    }
    if !present.isEmpty { throw .alreadyExist(names: present) }
  }
}

extension BreakerBackup {
  private static let reason = "restored"

  fileprivate func apply(to draft: inout BreakerDraft, _ words: AgreedWords) {
    let isDeclared = draft.agree { $0.restored(to: words, because: Self.reason, at: $1) }
    if isDeclared { draft.declaration = words.code }
    let policy = draft.breaker.policy
    switch state {
    case .closed:
      if draft.breaker.record.state != .closed {
        draft.reset(reason: Self.reason)
      }
    case .open, .halfOpen:
      let time = state == .open ? openFor ?? .zero : .zero
      draft.apply { record, now in
        record.tripped(for: time, reason: Self.reason, at: now, policy: policy, jitter: 0.5)
      }
      draft.breaker.record.openReason = openReason.map { OutsideText.cut($0) }
    }
    // Ended first, because a hold that is longer than that of the backup would win.
    _ = draft.endHold(reason: Self.reason)
    if let holdFor {
      let wish = CallOutcome.Hold(.lasting(holdFor), reason: holdReason)
      _ = draft.hold(for: wish, by: .operator(Self.reason))
    }
    // A mode whose time is over no longer holds.
    let isOver = modeFor.map { $0 <= .zero } ?? false
    let mode = isOver ? .automatic : mode
    guard mode != .automatic || draft.breaker.record.mode.mode != .automatic else { return }
    let author = OutsideText.cut(modeSetBy ?? Self.reason, to: OutsideText.longestName)
    draft.apply { record, now in
      record.modeSet(
        to: mode, for: modeFor, reason: isOver ? nil : modeReason, by: author, at: now)
    }
  }
}

/// Why a text is not the backup of a breaker.
public struct BackupError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The mistake in the text, in one line.
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
    openReason = try members.text("open_reason")
    if members.has("hold_for_ms") {
      holdFor = left(try members.number("hold_for_ms"))
      holdReason = try members.text("hold_reason")
    }
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
      .init("open_reason", JSONValue(openReason)),
      .init("hold_for_ms", JSONValue(milliseconds: holdFor)),
      .init("hold_reason", JSONValue(holdReason)),
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

    /// Whether it has the member; the first backups have none about holds.
    func has(_ key: String) -> Bool { values[key] != nil }

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
