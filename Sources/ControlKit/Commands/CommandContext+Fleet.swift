import ProgramKit
import SharedBreaker

extension OptionSpec {
  static let fleet = OptionSpec(
    name: "fleet", summary: "do the same on every host of the fleet, through cbrelay")
}

extension FleetStanding? {
  /// The scope of a command that was given with `--fleet`, or without it.
  var scope: CommandScope { self == nil ? .host : .fleet }

  /// What a line about a changed breaker ends in.
  var words: String {
    guard let standing = self else { return "" }
    let hosts = standing.isConnected ? "for every host" : "on this host, and later on the others"
    return "; \(hosts) of fleet \(VisibleText.name(standing.fleet))"
  }
}

extension CommandContext {
  /// The fleet that a command is for, which has a relay to tell it; nil without `--fleet`.
  ///
  /// A command calls this before it changes anything.
  func fleet(of parsed: ParsedCommand) throws(ControlError) -> FleetStanding? {
    guard parsed.has("fleet") else { return nil }
    var standing: FleetStanding?
    do throws(StoreError) {
      try store.connectToExisting()
      standing = try store.fleetStanding()
    } catch {
      // Without a store there is no relay, which is what has to be started first.
      if error.kind != .missing { throw ControlError(error) }
    }
    if let standing, standing.isRelayRunning { return standing }
    throw ControlError(
      .storeUnavailable, "nothing was changed", "cbrelay does not run on this host",
      "start it, or leave out --fleet to act on this host alone")
  }

  /// Says why other hosts get a command later, if the relay cannot tell them now.
  func noteDelay(of fleet: FleetStanding?) {
    guard let fleet, !fleet.isConnected else { return }
    let problem = fleet.problem.map { " (\(VisibleText.bare($0)))" } ?? ""
    note(
      "the relay of this host does not reach the fleet\(problem): it tells the others as soon as it "
        + "does")
  }

  /// What the store knows of its fleet; nil if it belongs to none.
  func fleetStanding() throws(ControlError) -> FleetStanding? {
    try connectToExisting()
    return try ask { store throws(StoreError) in try store.fleetStanding() }
  }

  /// What the relay of a fleet knows; it runs, answers, and has the hosts from Redis.
  func answer(of fleet: FleetStanding) throws(ControlError) -> RelayStatus {
    func unseen(_ why: String, _ remedy: String) -> ControlError {
      ControlError(
        .storeUnavailable, "fleet \(VisibleText.name(fleet.fleet)) cannot be seen", why, remedy)
    }
    let now = now()
    guard fleet.isRelayRunning else {
      throw unseen(fleet.trouble(at: now) ?? "", "start cbrelay")
    }
    let status: RelayStatus
    do throws(RelaySilence) {
      status = try RelayClient(store: store.path, patience: console.relayPatience).status()
    } catch {
      throw unseen(
        "the relay of this host gives no answer (\(VisibleText.bare(error.why)))",
        "try again, or look at its log")
    }
    guard status.isConnected else {
      throw unseen(
        FleetTrouble.notReached(since: status.since, status.problem, status.waiting ?? 0, at: now),
        status.problem == nil
          ? "it connects as soon as it can"
          : "remove the cause, and it connects by itself")
    }
    guard status.hosts != nil else {
      throw unseen("Redis gives the relay of this host no answer now", "try again")
    }
    return status
  }
}
