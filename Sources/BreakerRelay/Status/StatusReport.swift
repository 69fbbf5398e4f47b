internal import JSONText
internal import ProgramKit
internal import SharedBreaker

/// Finds out what a relay answers to anyone who asks for its status.
struct StatusReport {
  private let context: RelayContext
  private let question: RelayStatus.Question

  init(_ context: RelayContext, _ question: RelayStatus.Question) {
    self.context = context
    self.question = question
  }

  /// How long the server may take, because somebody waits for the answer.
  private static let patience = Duration.seconds(1)

  /// The document as text.
  var text: String {
    let figures = context.health.now
    // Unknown is not the same as none.
    let hosts = figures.isConnected ? try? hostsOfFleet() : [ownHost]
    return RelayStatus(
      fleet: context.options.fleet, host: context.options.host, isConnected: figures.isConnected,
      since: figures.since, problem: figures.problem,
      lag: figures.isConnected ? figures.lag.map { .milliseconds($0) } : nil, waiting: waiting,
      applied: figures.applied, refused: figures.refused, hosts: hosts
    ).document(answering: question).text
  }

  /// How many commands the other hosts do not know yet; nil if the store does not say.
  private var waiting: Int64? {
    guard let standing = try? context.store.fleetStanding() else { return nil }
    return Int64(standing.waiting)
  }

  /// This host alone, for a time without the server.
  private var ownHost: RelayStatus.Host {
    let snapshots = question == .status ? (try? context.store.snapshots()) ?? [] : []
    return RelayStatus.Host(
      name: context.options.host, silence: .zero, isSilent: false,
      breakers: snapshots.compactMap { FleetBreaker($0, at: 0)?.standing(at: 0) })
  }
}

/// The hosts, as the server knows them.
extension StatusReport {
  /// How many hosts are asked about at once.
  private static let hostsAtOnce = 500

  private func hostsOfFleet() throws(RedisError) -> [RelayStatus.Host] {
    let connection = try RedisConnection(to: context.options.address, patience: Self.patience)
    let answers = try connection.ask([
      ["TIME"], ["ZRANGE", context.keys.hosts, "0", "-1", "WITHSCORES"],
    ])
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
    var hosts = silences.map {
      RelayStatus.Host(
        name: $0.name, silence: .milliseconds($0.silence), isSilent: $0.silence >= limit,
        breakers: [])
    }
    guard question == .status else { return hosts }
    for start in stride(from: 0, to: hosts.count, by: Self.hostsAtOnce) {
      let chunk = start..<min(start + Self.hostsAtOnce, hosts.count)
      // The relay waits for this answer before it ends.
      guard !context.isStopped else { throw RedisError("the relay ends") }
      let fields = try connection.ask(
        hosts[chunk].map { ["HGETALL", context.keys.host($0.name)] })
      for (index, fields) in zip(chunk, fields) {
        hosts[index].breakers = breakers(in: fields, at: now)
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
