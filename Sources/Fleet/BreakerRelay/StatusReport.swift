internal import JSONText
@_spi(Relay) internal import ProgramKit
@_spi(Relay) internal import SharedBreaker

/// Makes the answer to a question about a relay's status.
struct StatusReport {
  private let context: RelayContext
  private let question: RelayStatus.Question

  /// The user who asks; nil if the kernel cannot name them.
  private let user: String?

  init(_ context: RelayContext, _ question: RelayStatus.Question, from user: String?) {
    self.user = user
    self.context = context
    self.question = question
  }

  /// How long to wait for the server, because a client is waiting for the answer.
  private static let patience = Duration.seconds(1)

  /// The document as text.
  var text: String {
    switch question {
    case .confirmations(let name): return confirmations(of: name).document.text
    case .forgetting(let host): return forgetting(host).document.text
    case .giving(let giving):
      if let user { context.givers.note(giving, by: user) }
      return FleetGiverSeen(user: user).document.text
    case .status, .figures: break
    }
    let figures = context.health.now
    let authority = context.authority
    // Unknown is different from none.
    let hosts = figures.isConnected ? try? hostsOfFleet() : [ownHost]
    return RelayStatus(
      fleet: context.options.fleet, host: context.options.host, isConnected: figures.isConnected,
      since: figures.since, problem: figures.problem,
      lag: figures.isConnected ? figures.lag.map { .milliseconds($0) } : nil,
      skew: figures.skew.map { .milliseconds($0) }, waiting: waiting,
      applied: figures.applied, refused: figures.refused, unproven: figures.unproven,
      keys: authority.keyNames, acceptsUnsigned: authority.acceptsUnsigned,
      obeyed: authority.obeyedWords, hosts: hosts
    ).document(answering: question).text
  }

  /// How many commands have not reached the other hosts; nil if the store cannot be read.
  private var waiting: Int64? {
    guard let standing = try? context.store.fleetStanding() else { return nil }
    return Int64(standing.waiting)
  }

  /// This host alone, for when the server is unavailable.
  private var ownHost: RelayStatus.Host {
    let snapshots = question == .status ? (try? context.store.snapshots()) ?? [] : []
    return RelayStatus.Host(
      name: context.options.host, silence: .zero, isSilent: false, relay: SharedStore.version,
      speaks: FleetMessage.protocolVersion, isProven: context.authority.isOn ? true : nil,
      keys: context.authority.keyNames,
      breakers: snapshots.compactMap { FleetBreaker($0, at: 0)?.standing(at: 0) })
  }
}

/// The hosts, as the server knows them.
extension StatusReport {
  private func hostsOfFleet() throws(RedisError) -> [RelayStatus.Host] {
    let server = try FleetReading(context, patience: Self.patience)
    let descriptions = try server.descriptions()
    var hosts = server.hosts.map { host in
      let description = descriptions[host.name]
      let isProven: Bool? = context.authority.isOn ? description?.proof == .proven : nil
      return RelayStatus.Host(
        name: host.name, silence: .milliseconds(host.silence), isSilent: host.isSilent,
        skew: description?.skew.map { .milliseconds($0) }, relay: description?.relay,
        speaks: description?.speaks ?? (description?.confirms == true ? 2 : 1),
        isProven: isProven, keys: description?.keys ?? [], breakers: [])
    }
    guard question == .status else { return hosts }
    for start in stride(from: 0, to: hosts.count, by: FleetReading.atOnce) {
      let chunk = start..<min(start + FleetReading.atOnce, hosts.count)
      // The relay waits for this answer before it ends.
      guard !context.isStopped else { throw RedisError("the relay ends") }
      let fields = try server.ask(hosts[chunk].map { ["HGETALL", context.keys.host($0.name)] })
      for (index, fields) in zip(chunk, fields) {
        hosts[index].breakers = breakers(of: hosts[index].name, in: fields, at: server.now)
      }
    }
    return hosts
  }

  private func breakers(
    of host: String, in fields: RedisReply, at now: Int64
  ) -> [RelayStatus.Standing] {
    let authority = context.authority
    let breakers = (fields.pairs ?? []).compactMap { field, value -> FleetBreaker? in
      guard let name = field.text, let text = value.text,
        authority.accepts(authority.proof(of: text, .breaker, [host, name]))
      else { return nil }
      return FleetBreaker(text, named: name)
    }
    return breakers.sorted { $0.name < $1.name }.map { $0.standing(at: now) }
  }
}

/// Forgetting a host that is gone for good.
extension StatusReport {
  private func forgetting(_ host: String) -> FleetDismissal {
    if let complaint = FleetName.complaint(about: host) {
      return FleetDismissal(problem: complaint)
    }
    do throws(RedisError) {
      return try FleetReading(context, patience: Self.patience).forget(host)
    } catch {
      return FleetDismissal(problem: error.description)
    }
  }
}

/// Confirmations of the latest commands to a breaker.
extension StatusReport {
  private func confirmations(of name: String) -> FleetConfirmations {
    let known = (try? context.store.fleetCommands(to: name)) ?? []
    do throws(RedisError) {
      let server = try FleetReading(context, patience: Self.patience)
      return FleetConfirmations(commands: try server.confirmations(of: known, to: name))
    } catch {
      return FleetConfirmations(
        commands: known.map { FleetConfirmations.Command($0) }, problem: error.description)
    }
  }
}

extension FleetConfirmations.Command {
  /// A command as this host alone knows it.
  fileprivate init(_ known: KnownFleetCommand) {
    let command = known.command
    self.init(
      aspect: known.aspect, stamp: command.stamp, host: command.host, author: command.author,
      verifiedUser: command.giver.verifiedUser, isProven: command.giver.isProven,
      reason: command.reason, age: command.age, isTold: false, refusal: known.refusal)
  }
}

/// The hosts of the fleet as the server knows them, read for a client that waits.
private final class FleetReading {
  struct Host {
    var name: String

    /// How long ago the host was last heard from, in milliseconds.
    var silence: Int64
    var isSilent: Bool
  }

  private let connection: RedisConnection
  private let keys: FleetKeys
  private let authority: FleetAuthority
  let now: Int64
  let hosts: [Host]

  /// How many hosts are asked about at once.
  static let atOnce = 500

  init(_ context: RelayContext, patience: Duration) throws(RedisError) {
    keys = context.keys
    authority = context.authority
    connection = try RedisConnection.primary(
      of: context.options.address, patience: patience, trying: context.sentinels?.current)
    let answers = try connection.ask([["TIME"], ["ZRANGE", keys.hosts, "0", "-1", "WITHSCORES"]])
    guard let now = ServerClock.milliseconds(answers[0]), let seen = answers[1].pairs else {
      throw .unexpected("a question about the hosts")
    }
    let silences = seen.compactMap { field, score -> (name: String, silence: Int64)? in
      guard let name = field.text, FleetName.complaint(about: name) == nil,
        let at = score.text.flatMap({ Double($0) }), at.magnitude < 1e15
      else { return nil }
      return (name, max(0, now - Int64(at)))
    }.sorted { $0.name < $1.name }
    let limit = BeatPace.silence(ofFleet: silences.count)
    self.now = now
    hosts = silences.map {
      Host(name: $0.name, silence: $0.silence, isSilent: $0.silence >= limit)
    }
  }

  func ask(_ commands: [[String]]) throws(RedisError) -> [RedisReply] {
    try connection.ask(commands)
  }

  /// Removes a host that is silent.
  func forget(_ host: String) throws(RedisError) -> FleetDismissal {
    let limit = BeatPace.silence(ofFleet: hosts.count)
    let script = try connection.ask(["SCRIPT", "LOAD", FleetScripts.dismiss])
    guard let name = script.text else { throw .unexpected("SCRIPT LOAD") }
    let answer = try connection.ask([
      "EVALSHA", name, "2", keys.hosts, keys.host(host), host, String(limit),
    ])
    if case .error(let text) = answer { throw RedisError(answer: text) }
    guard let silence = answer.number(upTo: ServerClock.latest) else { return FleetDismissal() }
    return FleetDismissal(silence: .milliseconds(silence), isForgotten: silence >= limit)
  }

  private func fields(_ field: String) throws(RedisError) -> [String: String] {
    var texts: [String: String] = [:]
    for start in stride(from: 0, to: hosts.count, by: Self.atOnce) {
      let chunk = hosts[start..<min(start + Self.atOnce, hosts.count)]
      let answers = try ask(chunk.map { ["HGET", keys.host($0.name), field] })
      for (host, answer) in zip(chunk, answers) { texts[host.name] = answer.text }
    }
    return texts
  }

  /// The hosts' descriptions of themselves.
  func descriptions() throws(RedisError) -> [String: HostDescription] {
    var descriptions: [String: HostDescription] = [:]
    for (host, text) in try fields(FleetKeys.ownField) {
      descriptions[host] = HostDescription(text, of: host, believing: authority)
    }
    return descriptions
  }

  /// The hosts' confirmations of commands, as far as the server has the commands.
  func confirmations(
    of known: [KnownFleetCommand], to name: String
  ) throws(RedisError) -> [FleetConfirmations.Command] {
    // The commands first: a host that has read them by then is not missed, and one that reads them
    // only later is not counted by mistake.
    let answers = try ask(
      [["GET", keys.epoch], ["GET", keys.count]]
        + known.map { ["HGET", keys.commands, "\(name)\n\($0.aspect)"] })
    let epoch = answers[0].text ?? ""
    let count = answers[1].number(upTo: FleetCommand.highestStamp) ?? 0
    let descriptions = try descriptions()
    let refusals = try fields(FleetKeys.refusalsField)
    return zip(known, answers.dropFirst(2)).map { known, answer in
      var command = FleetConfirmations.Command(known)
      let place = FleetState.CommandPlace(name: name, aspect: known.aspect)
      guard let text = answer.text, let kept = KeptCommand(text),
        KeptCommand.isProven(text, at: place, now: now, to: authority)
      else { return command }
      if kept.stamp != command.stamp || kept.host != command.host {
        if kept.isLater(than: known.command) { command.winner = kept.host }
        return command
      }
      command.isTold = true
      // Without a number, as an earlier relay leaves it, it is at least not after the last message.
      let number = kept.number ?? count
      command.hosts = hosts.map { host in
        let (standing, why) = standing(
          of: host, known.command, descriptions[host.name], refusals[host.name],
          hasRead: { $0.hasCarriedOut(known.command, as: number, of: epoch, at: now) })
        return .init(host.name, standing, why: why, silence: .milliseconds(host.silence))
      }
      return command
    }
  }

  /// A host's standing about a command that the server has, and why it does not count.
  private func standing(
    of host: Host, _ command: FleetCommand, _ description: HostDescription?, _ refusals: String?,
    hasRead: (HostDescription) -> Bool
  ) -> (FleetConfirmations.Standing, why: String?) {
    if host.name == command.host { return (.confirmed, nil) }
    guard let description else { return (host.isSilent ? .silent : .pending, nil) }
    guard authority.accepts(description.proof) else {
      return (.mute, description.proof == .unsigned ? "not signed" : "wrongly signed")
    }
    let list = refusals.map { RefusedCommands($0) }
    let why = list?.why(command.name, stamp: command.stamp, host: command.host)
    if authority.isOn, description.proof == .proven {
      // An attacker may have taken the list away, or put an earlier one back.
      let isRight =
        FleetAuthority.seal(of: refusals) == description.refusals
        && refusals.map { authority.proof(of: $0, .refusals, [host.name]) == .proven } ?? true
      guard isRight else { return (host.isSilent ? .silent : .pending, nil) }
    }
    if let why { return (.refused, why) }
    if hasRead(description) { return (.confirmed, nil) }
    if !description.confirms { return (.mute, nil) }
    return (host.isSilent ? .silent : .pending, nil)
  }
}
