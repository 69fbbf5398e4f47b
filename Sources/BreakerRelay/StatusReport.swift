internal import JSONText
internal import ProgramKit
internal import SharedBreaker

/// Makes the answer to a question about a relay's status.
struct StatusReport {
  private let context: RelayContext
  private let question: RelayStatus.Question

  init(_ context: RelayContext, _ question: RelayStatus.Question) {
    self.context = context
    self.question = question
  }

  /// How long to wait for the server, because a client is waiting for the answer.
  private static let patience = Duration.seconds(1)

  /// The document as text.
  var text: String {
    if case .confirmations(let name) = question { return confirmations(of: name).document.text }
    let figures = context.health.now
    // Unknown is different from none.
    let hosts = figures.isConnected ? try? hostsOfFleet() : [ownHost]
    return RelayStatus(
      fleet: context.options.fleet, host: context.options.host, isConnected: figures.isConnected,
      since: figures.since, problem: figures.problem,
      lag: figures.isConnected ? figures.lag.map { .milliseconds($0) } : nil,
      skew: figures.skew.map { .milliseconds($0) }, waiting: waiting,
      applied: figures.applied, refused: figures.refused, hosts: hosts
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
      name: context.options.host, silence: .zero, isSilent: false,
      breakers: snapshots.compactMap { FleetBreaker($0, at: 0)?.standing(at: 0) })
  }
}

/// The hosts, as the server knows them.
extension StatusReport {
  private func hostsOfFleet() throws(RedisError) -> [RelayStatus.Host] {
    let server = try FleetReading(context, patience: Self.patience)
    let descriptions = try server.descriptions()
    var hosts = server.hosts.map { host in
      RelayStatus.Host(
        name: host.name, silence: .milliseconds(host.silence), isSilent: host.isSilent,
        skew: descriptions[host.name]?.skew.map { .milliseconds($0) }, breakers: [])
    }
    guard question == .status else { return hosts }
    for start in stride(from: 0, to: hosts.count, by: FleetReading.atOnce) {
      let chunk = start..<min(start + FleetReading.atOnce, hosts.count)
      // The relay waits for this answer before it ends.
      guard !context.isStopped else { throw RedisError("the relay ends") }
      let fields = try server.ask(hosts[chunk].map { ["HGETALL", context.keys.host($0.name)] })
      for (index, fields) in zip(chunk, fields) {
        hosts[index].breakers = breakers(in: fields, at: server.now)
      }
    }
    return hosts
  }

  private func breakers(in fields: RedisReply, at now: Int64) -> [RelayStatus.Standing] {
    let breakers = (fields.pairs ?? []).compactMap { field, value -> FleetBreaker? in
      guard let name = field.text, let text = value.text else { return nil }
      return FleetBreaker(text, named: name)
    }
    return breakers.sorted { $0.name < $1.name }.map { $0.standing(at: now) }
  }
}

/// Who has carried out the latest commands to a breaker.
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
  /// A command of which nothing is known but what this host knows.
  fileprivate init(_ known: KnownFleetCommand) {
    let command = known.command
    self.init(
      aspect: known.aspect, stamp: command.stamp, host: command.host, author: command.author,
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
  let now: Int64
  let hosts: [Host]

  /// How many hosts are asked about at once.
  static let atOnce = 500

  init(_ context: RelayContext, patience: Duration) throws(RedisError) {
    keys = context.keys
    connection = try RedisConnection(to: context.options.address, patience: patience)
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
    let limit = max(FleetServer.shortestSilence, 3 * Int64(silences.count))
    self.now = now
    hosts = silences.map {
      Host(name: $0.name, silence: $0.silence, isSilent: $0.silence >= limit)
    }
  }

  func ask(_ commands: [[String]]) throws(RedisError) -> [RedisReply] {
    try connection.ask(commands)
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

  /// What each host says about itself.
  func descriptions() throws(RedisError) -> [String: HostDescription] {
    try fields(FleetKeys.ownField).compactMapValues { HostDescription($0) }
  }

  /// What the hosts have said about commands, as far as the server has them.
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
    let refusals = try fields(FleetKeys.refusalsField).mapValues { RefusedCommands($0) }
    return zip(known, answers.dropFirst(2)).map { known, answer in
      var command = FleetConfirmations.Command(known)
      guard let kept = KeptCommand(answer.text) else { return command }
      if kept.stamp != command.stamp || kept.host != command.host {
        if kept.isLater(than: known.command) { command.winner = kept.host }
        return command
      }
      command.isTold = true
      // Without a number, as an earlier relay leaves it, it is at least not after the last message.
      let number = kept.number ?? count
      command.hosts = hosts.map { host in
        let silence = Duration.milliseconds(host.silence)
        let description = descriptions[host.name]
        func standing(
          _ standing: FleetConfirmations.Standing, why: String? = nil
        ) -> FleetConfirmations.Host {
          .init(host.name, standing, why: why, silence: silence)
        }
        if host.name == command.host { return standing(.confirmed) }
        let why = refusals[host.name]?.why(name, stamp: command.stamp, host: command.host)
        if let why { return standing(.refused, why: why) }
        if description?.hasRead(number, of: epoch) == true { return standing(.confirmed) }
        if let description, !description.confirms { return standing(.mute) }
        return standing(host.isSilent ? .silent : .pending)
      }
      return command
    }
  }
}
