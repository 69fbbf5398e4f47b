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
    let isOn = context.authority.isOn
    var hosts = server.roll.hosts.map { host in
      RelayStatus.Host(
        name: host.name, silence: .milliseconds(host.silence),
        isSilent: host.silence >= server.roll.patience,
        skew: host.mark?.skew.map { .milliseconds($0) }, relay: host.mark?.relay,
        speaks: host.mark?.speaks ?? FleetMessage.protocolVersion,
        isProven: isOn ? host.mark?.isProven ?? false : nil, keys: host.mark?.keys ?? [],
        breakers: [])
    }
    guard question == .status else { return hosts }
    for start in stride(from: 0, to: hosts.count, by: HostRoll.atOnce) {
      let chunk = start..<min(start + HostRoll.atOnce, hosts.count)
      // The relay waits for this answer before it ends.
      guard !context.isStopped else { throw RedisError("the relay ends") }
      let fields = try server.ask(hosts[chunk].map { ["HGETALL", context.keys.host($0.name)] })
      for (index, fields) in zip(chunk, fields) {
        hosts[index].breakers = breakers(of: hosts[index].name, in: fields, at: server.roll.now)
      }
    }
    return hosts
  }

  private func breakers(
    of host: String, in fields: RedisReply, at now: Int64
  ) -> [RelayStatus.Standing] {
    let authority = context.authority
    let breakers = (fields.pairs ?? []).compactMap { field, value -> FleetBreaker? in
      guard let name = field.text, !name.isEmpty, let text = value.text,
        (try? authority.isProven(object: text, .breaker, [host, name], by: host)) != nil
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
      return FleetConfirmations(commands: server.confirmations(of: known))
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
      reason: command.reason, age: command.age, isTold: !known.isWaiting, refusal: known.refusal)
  }
}

/// A connection of its own to the server, for a client that waits.
private final class FleetReading {
  private let context: RelayContext
  private let connection: RedisConnection
  let roll: HostRoll

  init(_ context: RelayContext, patience: Duration) throws(RedisError) {
    self.context = context
    let connection = try RedisConnection.primary(
      of: context.options.address, patience: patience, trying: context.sentinels?.current)
    self.connection = connection
    roll = try HostRoll(context) { words throws(RedisError) in try connection.ask(words) }
  }

  func ask(_ commands: [[String]]) throws(RedisError) -> [RedisReply] {
    try connection.ask(commands)
  }

  /// Puts a farewell in the place of a host that is silent.
  func forget(_ host: String) throws(RedisError) -> FleetDismissal {
    guard let known = roll.hosts.first(where: { $0.name == host }) else { return FleetDismissal() }
    let dismissal = FleetDismissal(
      silence: .milliseconds(known.silence), isForgotten: known.silence >= roll.patience)
    guard dismissal.isForgotten else { return dismissal }
    var farewell = HostMark(lineage: "", run: "", sentAt: roll.now)
    farewell.hasLeft = true
    let script = try connection.ask(["SCRIPT", "LOAD", FleetScripts.leave])
    guard let name = script.text else { throw .unexpected("SCRIPT LOAD") }
    let answer = try connection.ask([
      "EVALSHA", name, "2", context.keys.hosts, context.keys.host(host), host,
      context.authority.sealed(farewell.text, .host, [host]), known.digest,
    ])
    if case .error(let text) = answer { throw RedisError(answer: text) }
    context.course.change { $0.hosts[host] = nil }
    return dismissal
  }

  /// The hosts' confirmations of commands.
  func confirmations(of known: [KnownFleetCommand]) -> [FleetConfirmations.Command] {
    let heard = context.course.now.heard
    return known.map { known in
      var command = FleetConfirmations.Command(known)
      guard command.isTold else { return command }
      command.hosts = roll.hosts.filter(\.counts).map { host in
        let (standing, why) = standing(of: host, known.command, knowing: heard)
        return .init(host.name, standing, why: why, silence: .milliseconds(host.silence))
      }
      return command
    }
  }

  /// A host's standing about a command that the server has, and why it does not count.
  private func standing(
    of host: HostRoll.Host, _ command: FleetCommand, knowing heard: HeardCommands
  ) -> (FleetConfirmations.Standing, why: String?) {
    if host.name == command.host, host.name == context.options.host { return (.confirmed, nil) }
    if let why = host.mark?.why(command) { return (.refused, why) }
    if host.mark?.heard.has(command, knowing: heard) ?? false { return (.confirmed, nil) }
    return (host.silence >= roll.patience ? .silent : .pending, nil)
  }
}
