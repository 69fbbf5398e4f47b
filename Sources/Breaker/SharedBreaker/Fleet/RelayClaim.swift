@_spi(Relay) internal import BreakerCore
internal import BreakerStore

/// The right of one process to be the relay of a store, for as long as it is kept.
///
/// A relay tells other hosts what happens to the breakers of its own host, and writes the news from
/// other hosts into the store. `cbrelay` is a relay that uses Redis. No transaction of a relay is long,
/// and none writes anything if nothing changes. A method that has much to write takes several, and
/// lets other processes write in between.
@_spi(Relay) public final class RelayClaim: Sendable {
  /// A command that was given on this host and that the other hosts do not know yet.
  @_spi(Relay) public struct Pending: Sendable, Hashable {
    /// The number that orders the commands of the host.
    @_spi(Relay) public let id: Int64

    /// The command.
    @_spi(Relay) public let command: FleetCommand

    /// Why it cannot go out for now, as the relay has noted it; nil as long as nothing is known.
    @_spi(Relay) public let refusal: String?
  }

  private let engine: Engine
  private let hold: RelayHold
  private let fleet: String
  private let host: String

  /// How many commands the store remembers; nil if that is to be counted.
  private let commandCount = Guarded<Int?>(nil)

  init(_ engine: Engine, _ hold: RelayHold, fleet: String, host: String) {
    self.engine = engine
    self.hold = hold
    self.fleet = fleet
    self.host = host
  }

  /// Returns the oldest commands that the other hosts do not know yet.
  ///
  /// A command that a later one of this host has wholly overtaken is not among them.
  ///
  /// - Parameter limit: At most this many.
  /// - Returns: The commands, oldest first.
  /// - Throws: `StoreError` if the store cannot be read.
  @_spi(Relay) public func pendingCommands(limit: Int = 100) throws(StoreError) -> [Pending] {
    let now = engine.clock.moment
    return try engine.storage.pendingOrders(limit: limit).map {
      Pending(id: $0.id, command: $0.order.command(at: now), refusal: $0.refusal)
    }
  }

  /// Notes which commands the other hosts can learn of now, and which cannot go out.
  ///
  /// A command that cannot go out stays pending until it can, or until an operator withdraws it with
  /// ``SharedStore/withdrawCommands(to:)``.
  ///
  /// - Parameters:
  ///   - ids: The commands that are out.
  ///   - refusals: The commands that cannot go out for now, each with the reason; nil if that is over.
  /// - Throws: `StoreError` if the store cannot be written. Then the commands stay pending, and
  ///   telling them again does no harm.
  @_spi(Relay) public func published(
    _ ids: [Int64], refusing refusals: [Int64: String?] = [:]
  ) throws(StoreError) {
    var request = request
    request.published = ids
    request.refusals = refusals.mapValues { why in why.map { OutsideText.cut($0) } }
    _ = try carryOut(request)
  }

  /// Returns how often operators of this host have withdrawn commands.
  ///
  /// A relay that sees the number change reads the commands of the fleet again, because the host may
  /// have overruled one of them by a command that is withdrawn now.
  ///
  /// - Throws: `StoreError` if the store cannot be read.
  @_spi(Relay) public func withdrawals() throws(StoreError) -> Int64 {
    try engine.storage.fleet()?.withdrawals ?? 0
  }

  /// Returns the latest commands that breakers of this host do not follow, because the values that
  /// they set do not fit the policies here; each is about one aspect.
  ///
  /// - Throws: `StoreError` if the store cannot be read.
  @_spi(Relay) public func unfollowedCommands() throws(StoreError) -> [FleetCommand] {
    let now = engine.clock.moment
    return try engine.storage.unfollowedOrders().map { $0.command(at: now) }
  }

  /// Applies news from other hosts, in order, and notes how far the relay has read.
  ///
  /// Much news takes several transactions, in which the other processes of the host see it bit by bit.
  ///
  /// If none of the news changes anything, a new position in the same epoch is not written either.
  /// A relay that begins from an earlier position reads the same news again, which changes nothing.
  ///
  /// - Parameters:
  ///   - news: The news from other hosts.
  ///   - position: How far the relay has read with these; nil to leave it as it is.
  /// - Returns: The effect of each piece of news.
  /// - Throws: `StoreError` if the store cannot be written, or belongs to another fleet. Some of the
  ///   news may have been applied then, and the position has not changed. Applying the same news again
  ///   does the rest.
  @_spi(Relay) public func apply(
    _ news: [FleetNews], position: FleetPosition?
  ) throws(StoreError) -> [FleetVerdict] {
    try apply(news, position: position, turn: FleetRequest.usualTurn)
  }

  /// Does the same with another time for each transaction.
  package func apply(
    _ news: [FleetNews], position: FleetPosition?, turn: Duration
  ) throws(StoreError) -> [FleetVerdict] {
    var request = request
    request.turn = turn
    request.news = news
    request.position = position
    request.commandCount = commandCount.withLock { $0 }
    let changes = try carryOut(request)
    // Where one was refused, there may be room again by the next time.
    let isKnown = changes.verdicts.allSatisfy(\.isAccepted)
    commandCount.withLock { $0 = isKnown ? changes.commandCount : nil }
    return changes.verdicts
  }

  /// Returns the latest commands of the fleet that this host knows, about one aspect each.
  ///
  /// A relay sends them to hosts that were away, or that have lost what they knew. Trips and resets
  /// of more than thirty days ago are not among them.
  ///
  /// - Throws: `StoreError` if the store cannot be read.
  @_spi(Relay) public func commands() throws(StoreError) -> [FleetCommand] {
    let now = engine.clock.moment
    return try engine.storage.fleetOrders().map { $0.command(at: now) }
  }

  /// Tells whether this host has seen a stamp that no command of the fleet can have.
  ///
  /// - Parameter stamp: The highest stamp that a command can have.
  /// - Returns: Whether it has seen a higher one.
  /// - Throws: `StoreError` if the store cannot be read.
  @_spi(Relay) public func hasStamps(above stamp: Int64) throws(StoreError) -> Bool {
    try engine.storage.fleet().map { $0.stamp > stamp } ?? false
  }

  /// Corrects the stamps that no command of the fleet can have.
  ///
  /// They come from a host whose clock was far ahead. No other host follows them. As long as they are
  /// remembered, each new command of that host gets an even higher stamp, and is refused too. A
  /// command of this host gets the stamp that it should have had; one of another host is forgotten,
  /// and what it has changed here stays until another command changes it.
  ///
  /// A command of this host stays later than those commands of the fleet that were given before it.
  ///
  /// - Parameters:
  ///   - stamp: The highest stamp that a command can have.
  ///   - commands: The latest commands of the fleet, as far as the relay knows them.
  /// - Returns: Whether there were any.
  /// - Throws: `StoreError` if the store cannot be written.
  @_spi(Relay) public func correctStamps(
    above stamp: Int64, knowing commands: [FleetCommand] = []
  ) throws(StoreError) -> Bool {
    var request = request
    request.latestStamp = max(0, stamp)
    request.remembered = commands
    return try carryOut(request).hasCorrected
  }

  /// Notes whether the relay reaches the other hosts, if that has changed.
  ///
  /// - Parameters:
  ///   - isConnected: Whether it does.
  ///   - problem: Why it does not, or what else is wrong; nil if nothing is wrong.
  /// - Throws: `StoreError` if the store cannot be written.
  @_spi(Relay) public func note(isConnected: Bool, problem: String?) throws(StoreError) {
    var request = request
    request.note = .init(
      isConnected: isConnected, problem: problem.map { OutsideText.cut($0) })
    _ = try carryOut(request)
  }

  /// Gives the right back; the same happens when the claim goes away or the process ends.
  @_spi(Relay) public func release() { hold.release() }

  private var request: FleetRequest { FleetRequest(fleet: fleet, host: host) }

  private func carryOut(_ request: FleetRequest) throws(StoreError) -> FleetChanges {
    try engine.carryOut(request)
  }
}

extension FleetVerdict {
  /// Whether the host has not refused it.
  fileprivate var isAccepted: Bool {
    if case .refused = self { return false }
    return true
  }
}
