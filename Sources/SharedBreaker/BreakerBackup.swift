internal import BreakerCore
internal import BreakerStore

/// What of a breaker is worth keeping when it moves to another store.
///
/// Its history, its totals, and what it has counted towards its next trip stay behind.
public struct BreakerBackup: Sendable, Hashable {
  /// The name of the breaker.
  public var name: String

  /// The state that it is in; half-open comes back as open with its time over, for leases are not
  /// kept.
  public var state = BreakerState.closed

  /// How long it stays open yet.
  public var openFor: Duration?

  /// The mode that holds.
  public var mode = BreakerMode.automatic

  /// How long the mode holds yet; nil if until it is taken away.
  public var modeFor: Duration?

  /// Why the mode was set.
  public var modeReason: String?

  /// Who set the mode.
  public var modeSetBy: String?

  /// What code declared last, as `open-for=1m probes=2`; nil if no code ever did.
  public var codePolicy: String?

  /// What an operator has set, in the same form.
  public var operatorPolicy: String?

  /// Describes a closed breaker that nobody has said anything of.
  public init(name: String) { self.name = name }

  /// Checks that there can be such a breaker.
  ///
  /// - Throws: `BreakerError` if its name or its policy cannot be used.
  public func validate() throws(BreakerError) {
    try Breaker.validate(name: name)
    do throws(PolicyError) {
      let code = try PolicyWords(text: codePolicy ?? "").applied(to: BreakerPolicy())
      _ = try PolicyWords(text: operatorPolicy ?? "").applied(to: code)
    } catch {
      throw .invalidPolicy(name: name, error)
    }
  }
}

extension BreakerSnapshot {
  /// What of the breaker is worth keeping.
  public var backup: BreakerBackup {
    var backup = BreakerBackup(name: name)
    backup.state = state
    backup.openFor = openEndsIn
    backup.mode = mode
    backup.modeFor = modeEndsIn
    backup.modeReason = modeReason
    backup.modeSetBy = modeSetBy
    backup.codePolicy = agreed.codeWords
    backup.operatorPolicy = agreed.operatorWords
    return backup
  }
}

extension SharedStore {
  /// Brings breakers back as they were kept, all of them in one transaction or none.
  ///
  /// A breaker that is replaced keeps its history, its totals, and what its backup says nothing of.
  ///
  /// - Parameters:
  ///   - backups: What was kept, each name once.
  ///   - replacing: Whether breakers of these names may be there already.
  /// - Returns: The names that are there already and may not be: then nothing was changed.
  /// - Throws: `BreakerError` if a backup or the store cannot be used; then nothing was changed.
  public func restore(
    _ backups: [BreakerBackup], replacing: Bool
  ) throws(BreakerError) -> [String] {
    for backup in backups { try backup.validate() }
    do throws(StoreError) {
      return try engine.step(
        together: backups.map { backup in NamedStep(backup.name) { backup.apply(to: &$0) } },
        mustBeNew: !replacing)
    } catch {
      throw .store(error)
    }
  }
}

extension BreakerBackup {
  private static let reason = "restored"

  fileprivate func apply(to draft: inout BreakerDraft) {
    applyPolicies(to: &draft)
    let policy = draft.breaker.policy
    switch state {
    case .closed:
      if draft.breaker.record.state != .closed {
        draft.apply { record, now in record.reset(reason: Self.reason, at: now) }
      }
    case .open, .halfOpen:
      let time = state == .open ? openFor ?? .zero : .zero
      draft.apply { record, now in
        record.tripped(for: time, reason: Self.reason, at: now, policy: policy, jitter: 0.5)
      }
    }
    // One whose time is over holds no longer.
    let isOver = modeFor.map { $0 <= .zero } ?? false
    let mode = isOver ? .automatic : mode
    guard mode != .automatic || draft.breaker.record.mode.mode != .automatic else { return }
    let author = OutsideText.cut(modeSetBy ?? Self.reason, to: OutsideText.longestName)
    draft.apply { record, now in
      record.modeSet(
        to: mode, for: modeFor, reason: isOver ? nil : modeReason, by: author, at: now)
    }
  }

  private func applyPolicies(to draft: inout BreakerDraft) {
    let codePolicy = codePolicy.map { Self.declared($0) }
    let operatorPolicy = operatorPolicy.flatMap { Self.overriding($0) }
    if let codePolicy, draft.breaker.codeWords != codePolicy {
      draft.breaker.codeWords = codePolicy
      draft.declaration = codePolicy
    }
    let before = draft.breaker.operatorWords
    guard before != operatorPolicy else { return }
    draft.breaker.operatorWords = operatorPolicy
    draft.note(.policy, from: before ?? "", to: operatorPolicy ?? "", reason: Self.reason)
  }

  // Words as the library itself writes them; `validate()` has read them before.

  private static func declared(_ words: String) -> String {
    do throws(PolicyError) {
      let policy = try PolicyWords(text: words).applied(to: BreakerPolicy())
      return PolicyWords(of: policy).description
    } catch {
      return ""
    }
  }

  private static func overriding(_ text: String) -> String? {
    do throws(PolicyError) {
      let words = try PolicyWords(text: text)
      return words.values.isEmpty ? nil : words.description
    } catch {
      return nil
    }
  }
}
