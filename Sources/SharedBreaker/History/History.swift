internal import BreakerCore
internal import BreakerStore

/// Something that happened to a breaker.
public struct HistoryEntry: Sendable, Hashable {
  /// Later entries have higher numbers.
  public let id: Int64

  /// When it happened.
  ///
  /// What time alone has done is recorded by the next call, with its own time: that the deadline of a
  /// probe passed, or that a mode ran out. So it can be earlier than that of the entry before it.
  public let at: Timestamp

  /// The breaker that it happened to.
  public let name: String

  /// What kind of thing happened: `transition`, `mode`, `reset`, `policy`, `deletion`, `probe` or
  /// `extension`.
  ///
  /// A `probe` came to an end without a report: it is `timed_out`, or `lost` with its owner. An
  /// `extension` is a trip of a breaker that was open already.
  public let kind: String

  /// What there was before.
  public let from: String

  /// What there was after.
  public let to: String

  /// Why it happened.
  public let reason: String?

  /// The process that did it, or recorded it.
  public let pid: Int32

  /// The program that did it, or recorded it.
  public let program: String

  /// Whether something that happened before it was lost to a listener, or to a hook, that reads on.
  ///
  /// Entries are lost that are no longer kept when their reader gets to them, and with a file that is
  /// replaced. What ``SharedStore/history(of:since:limit:)`` answers never has it set.
  public let isAfterGap: Bool

  init(_ event: StoredEvent, isAfterGap: Bool = false) {
    self.isAfterGap = isAfterGap
    id = event.id
    at = Timestamp(millisecondsSince1970: event.atMilliseconds)
    name = event.name
    kind = event.kind.wireName
    from = event.from
    to = event.to
    reason = event.reason
    pid = event.pid
    program = event.program
  }
}

/// A policy that code has declared for a breaker.
public struct PolicyDeclaration: Sendable, Hashable {
  /// The policy in the words of the command line; empty if it is the default one.
  public let text: String

  /// Whether it is the one that holds.
  public let isInForce: Bool

  /// When it was last declared anew.
  public let at: Timestamp

  /// The process that declared it.
  public let pid: Int32

  /// The program that declared it.
  public let program: String

  init(_ declaration: StoredDeclaration, isInForce: Bool) {
    text = declaration.words
    self.isInForce = isInForce
    at = Timestamp(millisecondsSince1970: declaration.atMilliseconds)
    pid = declaration.pid
    program = declaration.program
  }
}
