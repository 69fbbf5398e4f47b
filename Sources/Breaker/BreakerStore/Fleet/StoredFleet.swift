@_spi(Relay) package import BreakerCore

/// A store's knowledge of the fleet that its host belongs to.
package struct StoredFleet: Sendable, Hashable {
  package var fleet: String
  package var host: String

  /// The highest stamp of a command that this host has seen.
  package var stamp: Int64 = 0
  package var position: FleetPosition?

  /// The latest note of the relay, and its time.
  package var isConnected = false
  package var problem: String?
  package var changedAtMilliseconds: Int64?

  /// How many commands the relay has yet to publish.
  package var waiting = 0

  /// How many of these could not be published, and why the oldest could not.
  package var refused = 0
  package var refusal: String?

  /// How often operators have withdrawn commands.
  package var withdrawals: Int64 = 0

  package init(fleet: String, host: String) {
    self.fleet = fleet
    self.host = host
  }
}

/// A command that was given on this host and that the relay has yet to publish.
package struct PendingOrder: Sendable, Hashable {
  package var id: Int64
  package var order: FleetOrder

  /// Why the relay could not publish it; nil as long as nothing is known.
  package var refusal: String?

  package init(id: Int64, order: FleetOrder, refusal: String? = nil) {
    self.id = id
    self.order = order
    self.refusal = refusal
  }
}

/// A command to the whole fleet that an operator of this host gives.
package struct GivenCommand: Sendable, Hashable {
  package var action: FleetCommand.Action
  package var reason: String?
  package var author: String

  package init(_ action: FleetCommand.Action, reason: String?, author: String) {
    self.action = action
    self.reason = reason
    self.author = author
  }

  /// The command with its host and its stamp; nil if there is no higher stamp.
  func order(
    to name: String, of fleet: StoredFleet, in ledger: FleetLedger, at now: Moment
  ) -> FleetOrder? {
    guard let stamp = ledger.nextStamp(at: now) else { return nil }
    let command = FleetCommand(
      name: name, action: action, reason: reason, author: author, host: fleet.host, stamp: stamp,
      age: .zero)
    return FleetOrder(command, at: now)
  }
}

/// A relay's request to write.
package struct FleetRequest: Sendable, Hashable {
  /// The fleet that the relay belongs to, and what it calls this host.
  package var fleet: String
  package var host: String

  /// News that the relay has learned, to be applied in this order.
  package var news: [FleetNews] = []

  /// How far the relay has read with this news; nil if that has not changed.
  package var position: FleetPosition?

  /// Whether the relay reaches the other hosts, and why not; nil if that has not changed.
  package var note: Note?

  /// The commands that the relay has published.
  package var published: [Int64] = []

  /// The commands that cannot be published for now, and why; nil if that is over.
  package var refusals: [Int64: String?] = [:]

  /// The highest stamp that a command of the fleet can have; nil if that is not known.
  package var latestStamp: Int64?

  /// The commands that the fleet remembers, if stamps are to be corrected.
  package var remembered: [FleetCommand] = []

  /// How long the relay may work in one transaction.
  ///
  /// Every process that writes waits for it. The next transaction does what is left then; each does
  /// some of it, however short the time.
  package var turn = usualTurn

  /// With the commit, which takes time too, a transaction is shorter than ten milliseconds.
  package static let usualTurn = Duration.milliseconds(5)

  /// How many commands the store remembers; nil if that is not known.
  ///
  /// Counting them takes longer the more there are, so they are counted before the first transaction,
  /// and from then on as they come.
  package var commandCount: Int?

  /// Whether the part that was carried out already has changed anything.
  var hasChanged = false

  package struct Note: Sendable, Hashable {
    package var isConnected: Bool
    package var problem: String?

    package init(isConnected: Bool, problem: String?) {
      self.isConnected = isConnected
      self.problem = problem
    }
  }

  package init(fleet: String, host: String) {
    self.fleet = fleet
    self.host = host
  }
}

extension FleetRequest {
  /// Whether nothing has to be written in a store that knows this of its fleet, and in which commands
  /// wait to be published or do not.
  func isMet(by fleet: StoredFleet, hasPending: Bool) -> Bool {
    news.isEmpty && fleet.fleet == self.fleet && fleet.host == host
      && (note.map { $0 == fleet.note } ?? true)
      && (position.map { $0 == fleet.position } ?? true)
      && ((published.isEmpty && refusals.isEmpty) || !hasPending)
      && (latestStamp.map { fleet.stamp <= $0 } ?? true)
  }
}

extension StoredFleet {
  /// The latest note of the relay.
  var note: FleetRequest.Note {
    FleetRequest.Note(isConnected: isConnected, problem: problem)
  }
}

/// The result of a relay's request.
package struct FleetChanges: Sendable {
  /// One for each piece of news.
  package var verdicts: [FleetVerdict] = []

  /// Whether commands with impossible stamps were corrected or forgotten.
  package var hasCorrected = false

  /// The events of each breaker.
  package var events: [(name: String, events: [BreakerEvent])] = []

  /// The breakers that the transaction has changed, as they stand after each change.
  package var breakers: [StoredBreaker] = []

  /// How many commands the store remembers, or a few less; nil if that is not known.
  package var commandCount: Int?

  /// The part that a transaction had no time for; nil once all is done.
  var rest: FleetRequest?

  /// Why a transaction, which every process sees, may not survive a power cut.
  package var syncError: StoreError?

  /// Adds the changes of a later transaction.
  mutating func add(_ later: FleetChanges) {
    verdicts += later.verdicts
    hasCorrected = hasCorrected || later.hasCorrected
    events += later.events
    commandCount = later.commandCount
    rest = later.rest
    syncError = syncError ?? later.syncError
  }
}
