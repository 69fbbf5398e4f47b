/// Something that the history of a breaker records.
package struct BreakerEvent: Sendable, Hashable {
  package var change: BreakerChange
  package var reason: String?

  /// When it happened, by the wall clock; this may be earlier than when it was recorded.
  package var atMilliseconds: Int64

  /// The host of the fleet that it came from; nil for this host.
  package var origin: String?

  /// The giver, on that host, of the command that it carries out; nil if it carries out none.
  package var giver: FleetGiver?

  /// Whether the breaker begins to reject calls with it, which depends on the mode too.
  package var beginsOutage: Bool

  package init(
    _ change: BreakerChange, reason: String?, atMilliseconds: Int64, origin: String? = nil,
    beginsOutage: Bool? = nil
  ) {
    self.change = change
    self.reason = reason
    self.atMilliseconds = atMilliseconds
    self.origin = origin
    self.beginsOutage = beginsOutage ?? change.beginsOutage
  }

  /// The event as the effect of a command of another host.
  package func given(by giver: FleetGiver) -> BreakerEvent {
    var event = self
    event.origin = giver.host
    event.giver = giver
    return event
  }
}

/// The answer of one step of the state machine, and the events that it adds to the history.
package struct Step<Answer> {
  package var answer: Answer
  package var events: [BreakerEvent]
}

extension Step: Sendable where Answer: Sendable {}

/// One event of the history, with the number that orders it among those of all breakers.
///
/// It is what a store keeps of a `BreakerEvent`, and what a `HistoryEntry` is made of.
package struct RecordedEvent: Sendable, Hashable {
  package var id: Int64

  /// When it happened, which may be before it was written.
  package var atMilliseconds: Int64
  package var name: String
  package var change: BreakerChange
  package var reason: String?
  package var pid: Int32
  package var program: String
  package var mandate: HistoryAuthor.Mandate

  /// The event before it of the same breaker, kept or not; nil if there is none.
  package var previous: Int64?

  /// The host of the fleet that it came from; nil for this host.
  package var origin: String?

  /// The giver, on that host, of the command that it carried out; nil if it carried out none.
  package var giver: FleetGiver?

  /// Whether the breaker began to reject calls with it.
  package var beginsOutage: Bool

  /// How many events are kept of all breakers together.
  package static let mostOfAll: Int64 = 50_000

  package init(
    id: Int64, atMilliseconds: Int64, name: String, change: BreakerChange, reason: String?,
    pid: Int32, program: String, previous: Int64? = nil, origin: String? = nil,
    giver: FleetGiver? = nil, mandate: HistoryAuthor.Mandate = .none, beginsOutage: Bool? = nil
  ) {
    self.giver = giver
    self.id = id
    self.atMilliseconds = atMilliseconds
    self.name = name
    self.change = change
    self.reason = reason
    self.pid = pid
    self.program = program
    self.mandate = mandate
    self.previous = previous
    self.origin = origin
    self.beginsOutage = beginsOutage ?? change.beginsOutage
  }

  /// Whether an event between an earlier event and this one is no longer kept.
  ///
  /// If there is a name, only events of that breaker count.
  package func isAfterGap(since earlier: Int64, of name: String?) -> Bool {
    guard name != nil, earlier >= 0 else { return id != earlier + 1 }
    // No earlier event of its breaker was kept when this one was written, so there may be a gap.
    return previous.map { $0 > earlier } ?? (earlier < id - Self.mostOfAll)
  }
}

/// The author of a change, as the history names it.
package struct HistoryAuthor: Sendable, Hashable {
  package var pid: Int32
  package var program: String
  package var mandate: Mandate

  package init(pid: Int32, program: String, mandate: Mandate = .none) {
    self.pid = pid
    self.program = program
    self.mandate = mandate
  }

  /// The user that a program acts for, and the command that it runs for them; neither if it acts
  /// for itself.
  package struct Mandate: Sendable, Hashable {
    package var user: String?

    /// The name of a command without its arguments, which may be secret.
    package var command: String?

    package init(user: String?, command: String?) {
      self.user = user.map { OutsideText.cut($0, to: OutsideText.longestName) }
      self.command = command.map { OutsideText.cut($0, to: OutsideText.longestName) }
    }

    package static let none = Mandate(user: nil, command: nil)
  }

  /// The author in words: `worker (pid 4711)`, `deploy, via cbctl` or `curl, by deploy, via cbctl`.
  ///
  /// A tool with a mandate ends with its work, so its process number would name no process.
  package var words: String {
    switch (mandate.command, mandate.user) {
    case (let command?, let user?): "\(command), by \(user), via \(program)"
    case (let command?, nil): "\(command), via \(program)"
    case (nil, let user?): "\(user), via \(program)"
    case (nil, nil): "\(program) (pid \(pid))"
    }
  }
}
