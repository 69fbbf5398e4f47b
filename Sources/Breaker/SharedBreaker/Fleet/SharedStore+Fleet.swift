@_spi(Relay) internal import BreakerCore
internal import BreakerStore

/// Belonging to a fleet of hosts.
extension SharedStore {
  /// Returns what the store knows of the fleet that its host belongs to.
  ///
  /// - Returns: The standing; nil if no relay has ever worked on the store, or the host has left its
  ///   fleet.
  /// - Throws: `StoreError` if the store cannot be read.
  public func fleetStanding() throws(StoreError) -> FleetStanding? {
    guard let stored = try engine.storage.fleet() else { return nil }
    return FleetStanding(stored, isRelayRunning: try engine.storage.isRelayHeld())
  }

  /// Claims the right to be the relay of the store, which then belongs to a fleet.
  ///
  /// - Parameters:
  ///   - fleet: The name of the fleet.
  ///   - host: The name of this host in the fleet, which no other host of the fleet may have.
  /// - Returns: The claim; nil if another process is the relay of the store.
  /// - Throws: `StoreError` if the store cannot be written, if it belongs to another fleet, or if a
  ///   name is not valid. Names have 1 to 255 bytes of UTF-8 and no control characters.
  @_spi(Relay) public func claimRelay(fleet: String, host: String) throws(StoreError) -> RelayClaim?
  {
    for (what, name) in [("fleet", fleet), ("host", host)] {
      guard let complaint = OutsideText.complaint(aboutName: name) else { continue }
      throw StoreError(
        .other, "not a name of a \(what): \(complaint): use 1 to 255 bytes of text")
    }
    guard let hold = try engine.storage.holdRelay() else { return nil }
    do throws(StoreError) {
      // The note of an earlier relay says nothing about this one.
      var request = FleetRequest(fleet: fleet, host: host)
      request.note = .init(isConnected: false, problem: nil)
      _ = try engine.carryOut(request)
    } catch {
      hold.release()
      throw error
    }
    return RelayClaim(engine, hold, fleet: fleet, host: host)
  }

  /// Forgets the fleet, its commands, and what the relay has not told the other hosts yet.
  ///
  /// Breakers stay as they are, with the modes and the policies that the fleet has set.
  ///
  /// - Returns: Whether the store belonged to a fleet.
  /// - Throws: `StoreError` if the store cannot be written; its kind is `busy` if a relay works on
  ///   the store.
  @_spi(Relay) public func leaveFleet() throws(StoreError) -> Bool {
    guard try engine.storage.fleet() != nil else { return false }
    guard let hold = try engine.storage.holdRelay() else {
      throw StoreError(
        .busy, "the store \(OutsideText.visible(path)) has a relay: stop cbrelay first")
    }
    defer { hold.release() }
    return try engine.storage.leaveFleet()
  }

  /// Returns the latest commands of the fleet to a breaker, as this host knows them.
  ///
  /// - Returns: One for each aspect of the breaker, the latest first.
  /// - Throws: `StoreError` if the store cannot be read.
  @_spi(Relay) public func fleetCommands(to name: String) throws(StoreError) -> [KnownFleetCommand]
  {
    let now = engine.clock.moment
    let (registers, pending) = try engine.storage.fleetOrders(to: name)
    return registers.sorted { $0.order.isLater(than: $1.order) }.map { register in
      let waiting = pending.first { register.order.isPart(of: $0.order) }
      return KnownFleetCommand(register, at: now, waiting: waiting)
    }
  }

  /// Takes back the commands to a breaker that have not reached the other hosts yet.
  ///
  /// Their changes on this host stay until another command replaces them. If the server has got one
  /// of them after all, because its answer was lost, the hosts follow it.
  ///
  /// - Returns: The commands that no longer wait.
  /// - Throws: `StoreError` if the store cannot be written.
  @_spi(Relay) public func withdrawCommands(to name: String) throws(StoreError) -> [FleetCommand] {
    let now = engine.clock.moment
    return try engine.storage.withdraw(from: name).map { $0.command(at: now) }
  }

  /// Returns the identifier that distinguishes this store from its copies: 16 hexadecimal digits.
  ///
  /// A store that is created from scratch or restored from a copy has a different lineage.
  ///
  /// - Throws: `StoreError` if the store cannot be opened.
  public func lineage() throws(StoreError) -> String {
    let digits = String(UInt64(bitPattern: try engine.storage.lineage()), radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }
}

/// A store's knowledge of the fleet that its host belongs to.
public struct FleetStanding: Sendable, Hashable {
  /// The name of the fleet.
  public let fleet: String

  /// The name of this host in the fleet.
  public let host: String

  /// How far the relay has read what other hosts tell; nil if it has read nothing yet.
  @_spi(Relay) public let position: FleetPosition?

  /// Whether a relay works on the store.
  public let isRelayRunning: Bool

  /// Whether that relay has reached the other hosts since it began, and still does.
  public let isConnected: Bool

  /// When the relay last noted that it reaches them, or that it does not.
  public let changedAt: BreakerTimestamp?

  /// Why the relay does not reach the other hosts, in its own words; nil if it knows of nothing.
  public let problem: String?

  /// How many commands the relay has yet to tell the other hosts.
  public let waiting: Int

  /// How many of these cannot go out for now, such as those of a host whose clock is a day ahead.
  public let refused: Int

  /// Why the oldest of those cannot go out; nil if there is none.
  public let refusal: String?

  init(_ stored: StoredFleet, isRelayRunning: Bool) {
    fleet = stored.fleet
    host = stored.host
    position = stored.position
    self.isRelayRunning = isRelayRunning
    isConnected = isRelayRunning && stored.isConnected
    changedAt = stored.changedAtMilliseconds.map(BreakerTimestamp.init(millisecondsSince1970:))
    problem = stored.problem
    waiting = stored.waiting
    refused = stored.refused
    refusal = stored.refusal
  }
}

/// The latest command of a fleet about one aspect of a breaker, as one host knows it.
@_spi(Relay) public struct KnownFleetCommand: Sendable, Hashable {
  /// The aspect: `state`, `mode`, or `policy:` with a key of the policy.
  @_spi(Relay) public let aspect: String

  /// The command, as far as it is about that aspect.
  @_spi(Relay) public let command: FleetCommand

  /// Whether this host has yet to tell it to the others.
  @_spi(Relay) public let isWaiting: Bool

  /// Why it cannot go out for now; nil as long as nothing is known.
  @_spi(Relay) public let refusal: String?

  init(_ register: FleetRegister, at now: Moment, waiting: PendingOrder?) {
    aspect = register.aspect?.text ?? ""
    command = register.order.command(at: now)
    isWaiting = waiting != nil
    refusal = waiting?.refusal
  }
}
