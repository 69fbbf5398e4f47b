internal import Glibc
internal import ProgramKit
package import SharedBreaker

/// Checks whether a relay could work, and changes nothing.
package struct RelayCheck {
  /// The findings, one line each.
  package private(set) var lines: [String] = []
  package private(set) var isWell = true

  /// The identity of the store, as far as it is known.
  private enum StoreIdentity {
    case unknown, none
    case lineage(String)
  }

  private var identity = StoreIdentity.unknown

  package init(_ options: RelayOptions, storeOptions: StoreOptions = StoreOptions()) {
    var storeOptions = storeOptions
    storeOptions.isQuiet = true
    checkStore(SharedStore(path: options.store, options: storeOptions), options)
    for path in options.secretFiles { checkSecret(path) }
    checkRole(options)
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

  private mutating func warn(_ words: String) {
    lines.append("warning: \(OutsideText.visible(words))")
  }

  private mutating func pass(_ words: String) { lines.append("ok: \(OutsideText.visible(words))") }

  /// Warns of a secret that all users may read, which can be meant so in a container.
  private mutating func checkSecret(_ path: String) {
    var facts = stat()
    guard unsafe stat(path, &facts) == 0, facts.st_mode & S_IROTH != 0 else { return }
    warn("every user of this host may read '\(path)': run 'chmod o= \(path)'")
  }

  /// Says whether this host may command the fleet, as far as its own options tell.
  private mutating func checkRole(_ options: RelayOptions) {
    let authority = options.authority
    if let key = options.commandKey {
      pass("this host signs commands: name its key in --obey on every host: \(key.name.text)")
    }
    guard let why = authority.complaint(aboutCommandsOf: options.host) else { return }
    let words = "commands to the fleet are refused on this host: \(why)"
    // A host with a key of its own is meant to command.
    if options.commandKey == nil { pass(words) } else { warn(words) }
  }

  private mutating func checkStore(_ store: SharedStore, _ options: RelayOptions) {
    defer { store.close() }
    do throws(StoreError) {
      try store.connectToExisting()
      identity = .lineage(try store.lineage())
      let standing = try store.fleetStanding()
      if let standing, standing.fleet != options.fleet {
        fail(RelayTrouble.otherFleet(store.path, standing.fleet).words(for: options))
        return
      }
      let relay = standing?.isRelayRunning == true ? ", on which a cbrelay works" : ""
      pass("the store \(store.path)\(relay)")
    } catch {
      guard error.kind == .missing else { return fail(error.description) }
      identity = .none
      if let obstacle = Self.obstacle(toCreating: store.path) {
        return fail(
          "no store yet at \(store.path), and cbrelay cannot create it: \(obstacle): create it with"
            + " 'cbctl init' as a user who may, or choose another --store")
      }
      pass("no store yet at \(store.path): cbrelay creates it")
    }
  }

  /// Why a file and its directories cannot be created; nil if it seems possible.
  private static func obstacle(toCreating path: String) -> String? {
    var directory = path
    repeat {
      let slash = directory.lastIndex(of: "/")
      directory = slash.map { $0 == directory.startIndex ? "/" : String(directory[..<$0]) } ?? "."
      if unsafe access(directory, W_OK | X_OK) == 0 { return nil }
    } while errno == ENOENT && directory != "/" && directory != "."
    return "\(directory): \(SystemError.text(errno))"
  }

  /// Checks that the server's user may do everything that a relay does, without doing any of it.
  private func checkRights(
    at address: RedisAddress, _ options: RelayOptions, _ keys: FleetKeys
  ) throws(RedisError) {
    // The server discards the transaction when this connection is closed.
    let connection = try RedisConnection(to: address, patience: RelayContext.patience)
    var refused: [String] = []
    var areKeysRefused = false
    func note(_ command: [String], _ answer: RedisReply) throws(RedisError) {
      guard case .error(let text) = answer else { return }
      // An answer to EXEC has the code after one of its own.
      guard text.contains("NOPERM") else { throw RedisError(answer: text) }
      if text.contains(" key") { areKeysRefused = true }
      if !refused.contains(command[0]) { refused.append(command[0]) }
    }
    // Outside a transaction the server would run the commands, so each of these must succeed.
    for command in [["MULTI"], ["EXEC"], ["MULTI"]] where refused.isEmpty {
      try note(command, try connection.ask([command])[0])
    }
    if refused.isEmpty {
      let commands = FleetRights.commands(keys, host: options.host)
      for (command, answer) in zip(commands, try connection.ask(commands)) {
        try note(command, answer)
      }
    }
    guard !refused.isEmpty else { return }
    let what =
      areKeysRefused
      ? "use the keys \(keys.pattern)" : "run \(refused.joined(separator: ", "))"
    throw RedisError(
      "its user may not \(what): the guide 'A Fleet of Hosts' says what a relay needs")
  }

  /// Whether a relay of another store was seen lately under the name of this host.
  private func isNameTaken(
    _ options: RelayOptions, _ keys: FleetKeys, _ connection: RedisConnection
  ) throws(RedisError) -> Bool {
    let lineage: String?
    switch identity {
    case .unknown: return false
    case .none: lineage = nil
    case .lineage(let digits): lineage = digits
    }
    let answers = try connection.ask([["TIME"], ["HGET", keys.host(options.host), ""]])
    guard let now = ServerClock.milliseconds(answers[0]),
      let own = answers[1].text.flatMap({
        try? HostMark($0, of: options.host, believing: options.authority)
      })
    else { return false }
    return !own.hasLeft && own.lineage != lineage
      && own.isRecent(at: now, within: BeatPace.shortestSilence)
  }

  /// Says which primary each sentinel names; one that does not answer is a problem only if none
  /// does.
  private mutating func check(_ sentinels: Sentinels, tls: RedisTLS?) {
    for member in sentinels.members {
      do throws(RedisError) {
        let connection = try sentinels.connect(to: member, tls: tls)
        let named = try sentinels.primary(namedBy: member, over: connection)
        pass("the sentinel \(member) names \(named)")
      } catch {
        warn("\(error)")
      }
    }
  }

  private mutating func checkServer(_ options: RelayOptions) throws(RedisError) {
    let start = ContinuousClock.now
    if case .sentinels(let sentinels) = options.address.place {
      check(sentinels, tls: options.address.tls)
    }
    let connection = try RedisConnection.primary(
      of: options.address, patience: RelayContext.patience)
    let keys = FleetKeys(fleet: options.fleet)
    let answers = try connection.ask([["INFO", "server"], ["ROLE"]])
    let facts = answers[0]
    let time = DurationText.milliseconds(.now - start)
    func version(_ name: String) -> Substring? {
      facts.text?.split(whereSeparator: \.isNewline).first { $0.hasPrefix("\(name)_version:") }
        .map { $0.dropFirst(name.count + "_version:".count) }
    }
    if let version = version("redis"), let major = Int(version.prefix { $0 != "." }), major < 5 {
      throw RedisError("it is Redis \(version), and streams need version 5 or later")
    }
    try ServerRole(answers[1]).check()
    // The rights include INFO and ROLE, which may just have been refused.
    try checkRights(at: connection.address, options, keys)
    guard let redis = version("redis") else { throw .unexpected("INFO") }
    // Valkey also names the version of Redis that it replaces.
    let server = version("valkey").map { "Valkey \($0)" } ?? "Redis \(redis)"
    let encryption = connection.encryption.map { ", \($0)" } ?? ""
    pass("\(server) at \(connection.address), \(time) ms away\(encryption)")
    guard try !isNameTaken(options, keys, connection) else {
      return fail(RelayTrouble.nameTaken(options.host).words(for: options))
    }
    let hosts = try connection.ask(["ZRANGE", keys.hosts, "0", "-1"]).elements ?? []
    let others = hosts.compactMap(\.text).filter { $0 != options.host }
    pass(
      "the fleet \(options.fleet) has \(CountedNoun.text(others.count, "other host")) on record")
  }
}
