internal import BreakerCore
internal import BreakerStore

/// Something that happened to a breaker.
public struct HistoryEntry: Sendable, Hashable {
  /// The number of the entry; later entries of the same file have higher numbers.
  public let id: Int64

  /// When it happened.
  ///
  /// It can be earlier than the time of the entry before. A change by time alone, such as the end
  /// of a mode or the deadline of a probe, is recorded by the next call, with the time at which it
  /// happened.
  public let at: BreakerTimestamp

  /// The name of the breaker that it happened to.
  public let name: String

  /// The change.
  public let change: BreakerChange

  /// Why it happened; nil if no reason was given.
  public let reason: String?

  /// The number of the process that did it or recorded it.
  public let pid: Int32

  /// The name of the program that did it or recorded it.
  public let program: String

  /// The user for whom the program acted; nil if it acted for itself.
  ///
  /// `cbctl` states the user that it was run by, such as `deploy`, or `root (login deploy)` after
  /// `sudo`.
  public let user: String?

  /// The command that the program ran for its user, without its arguments, as `cbctl run` does; nil
  /// if there was none.
  public let command: String?

  /// The host of the fleet that the change came from; nil for this host.
  public let host: String?

  /// The giver, on that host, of the command that the entry carried out; nil if it carried out
  /// none.
  public let giver: FleetGiver?

  /// Whether entries before this one are missing for a listener or a hook.
  ///
  /// Entries are missing if they are no longer kept when the reader gets to them, or if the file
  /// was replaced. Entries from ``SharedStore/history(of:since:limit:)`` never have it set.
  public let isAfterGap: Bool

  /// Whether calls begin to be rejected, so that people should be paged.
  ///
  /// It is true when a closed breaker opens, or when the probe after a suspicion fails. Any other
  /// failed probe opens the breaker again, which is the same outage. Under a mode that lets calls
  /// through, such as `observe`, nothing is rejected; it is true when that mode ends before the
  /// breaker is closed.
  public let beginsOutage: Bool

  /// Whether it is certain that there was no entry of the breaker before this one.
  @_spi(Command) public let isFirst: Bool

  init(_ event: RecordedEvent, isAfterGap: Bool) {
    self.isAfterGap = isAfterGap
    id = event.id
    at = BreakerTimestamp(millisecondsSince1970: event.atMilliseconds)
    name = event.name
    change = event.change
    reason = event.reason
    pid = event.pid
    program = event.program
    user = event.mandate.user
    command = event.mandate.command
    host = event.origin
    giver = event.giver
    beginsOutage = event.beginsOutage
    isFirst = !event.isAfterGap(since: 0, of: event.name)
  }
}

extension HistoryEntry: CustomStringConvertible {
  /// The change, its reason and its author, in one line without the time.
  ///
  /// For example: `payments: closed -> open: 3 failures in a row, worker (pid 4711)`.
  public var description: String {
    let what = change.description + (reason.map { ": \($0)" } ?? "")
    return "\(OutsideText.name(name)): \(OutsideText.visible("\(what), \(author)"))"
  }
}

extension HistoryEntry {
  /// The author, such as `worker (pid 4711)` or `curl, by deploy, via cbctl`.
  ///
  /// If a relay did it, the text ends with the host that the news came from, or with who gave the
  /// command there: `cbrelay (pid 12) for deploy on ops-1 (verified)`. Names are as they were
  /// given, so they may contain control characters.
  public var author: String {
    let mandate = HistoryAuthor.Mandate(user: user, command: command)
    return HistoryAuthor(pid: pid, program: program, mandate: mandate).words
      + ((giver?.description ?? host).map { " for \($0)" } ?? "")
  }

  /// Whether a breaker that was open or half-open has closed, or is gone.
  ///
  /// It can be true without an outage before it: when a breaker that a suspicion has made half-open
  /// is reset or deleted.
  public var endsOutage: Bool { change.endsOutage }
}
