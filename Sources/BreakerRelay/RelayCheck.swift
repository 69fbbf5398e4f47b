package import SharedBreaker

/// Tries whether a relay could work, and changes nothing but the store that it may create.
package struct RelayCheck {
  /// What was found, a line each.
  package private(set) var lines: [String] = []
  package private(set) var isWell = true

  /// The lineage of the store; nil if there is no store yet.
  private var lineage: String?

  package init(_ options: RelayOptions, storeOptions: StoreOptions = StoreOptions()) {
    checkStore(SharedStore(path: options.store, options: storeOptions), options)
    do throws(RedisError) {
      try checkServer(options)
    } catch {
      fail("cannot use \(options.address): \(error)")
    }
  }

  private mutating func fail(_ words: String) {
    lines.append("problem: \(OutsideText.visible(words))")
    isWell = false
  }

  private mutating func pass(_ words: String) { lines.append("ok: \(OutsideText.visible(words))") }

  private mutating func checkStore(_ store: SharedStore, _ options: RelayOptions) {
    defer { store.close() }
    do throws(StoreError) {
      try store.connectToExisting()
      lineage = try store.lineage()
      let standing = try store.fleetStanding()
      if let standing, standing.fleet != options.fleet {
        fail(RelayTrouble.otherFleet(store.path, standing.fleet).words(for: options))
        return
      }
      let relay = standing?.isRelayRunning == true ? ", on which a cbrelay works" : ""
      pass("the store \(store.path)\(relay)")
    } catch {
      guard error.kind == .missing else { return fail(error.description) }
      pass("no store yet at \(store.path): cbrelay creates it")
    }
  }

  /// Tries whether the server's user may do all that a relay does, without doing any of it.
  private func checkRights(_ options: RelayOptions, _ keys: FleetKeys) throws(RedisError) {
    // The transaction ends with the connection, and nothing of it is run.
    let connection = try RedisConnection(to: options.address, patience: RelayContext.patience)
    // Outside a transaction the server would run the commands, so each of these must succeed.
    for command in ["MULTI", "EXEC", "MULTI"] { _ = try connection.ask([command]) }
    let commands = FleetRights.commands(keys, host: options.host)
    var refused: [String] = []
    for (command, answer) in zip(commands, try connection.ask(commands)) {
      guard case .error(let text) = answer else { continue }
      guard text.hasPrefix("NOPERM") else { throw RedisError(answer: text) }
      if !refused.contains(command[0]) { refused.append(command[0]) }
    }
    guard refused.isEmpty else {
      throw RedisError(
        "its user may not run \(refused.joined(separator: ", ")) on the fleet's keys: the guide"
          + " 'A Fleet of Hosts' says what a relay needs")
    }
  }

  /// Whether a relay of another store was seen lately under the name of this host.
  private func isNameTaken(
    _ options: RelayOptions, _ keys: FleetKeys, _ connection: RedisConnection
  ) throws(RedisError) -> Bool {
    let answers = try connection.ask([
      ["TIME"], ["ZSCORE", keys.hosts, options.host], ["HGET", keys.host(options.host), ""],
    ])
    guard let now = ServerClock.milliseconds(answers[0]),
      let seen = answers[1].text.flatMap({ ServerClock.time($0) }), let own = answers[2].text
    else { return false }
    return now - seen < FleetServer.shortestSilence && HostText.lineage(in: own) != lineage
  }

  private mutating func checkServer(_ options: RelayOptions) throws(RedisError) {
    let start = ContinuousClock.now
    let connection = try RedisConnection(to: options.address, patience: RelayContext.patience)
    let keys = FleetKeys(fleet: options.fleet)
    let facts = try connection.ask(["INFO", "server"]).text ?? ""
    func version(_ name: String) -> Substring? {
      facts.split(whereSeparator: \.isNewline).first { $0.hasPrefix("\(name)_version:") }
        .map { $0.dropFirst(name.count + "_version:".count) }
    }
    // Valkey also names the version of Redis that it replaces.
    let valkey = version("valkey").map { "Valkey \($0)" }
    guard let version = version("redis"), let major = Int(version.prefix { $0 != "." }) else {
      throw .unexpected("INFO")
    }
    guard major >= 5 else {
      throw RedisError("it is Redis \(version), and streams need version 5 or later")
    }
    let role = try connection.ask(["ROLE"]).elements?.first?.text
    guard role == "master" else { throw RedisError(answer: "READONLY") }
    let hosts = try connection.ask(["ZRANGE", keys.hosts, "0", "-1"]).elements ?? []
    let time = DurationText.milliseconds(.now - start)
    try checkRights(options, keys)
    pass("\(valkey ?? "Redis \(version)") at \(options.address), \(time) ms away")
    guard try !isNameTaken(options, keys, connection) else {
      return fail(RelayTrouble.nameTaken(options.host).words(for: options))
    }
    let others = hosts.compactMap(\.text).filter { $0 != options.host }
    pass(
      "the fleet \(options.fleet) has \(CountedNoun.text(others.count, "other host")) on record")
  }
}
