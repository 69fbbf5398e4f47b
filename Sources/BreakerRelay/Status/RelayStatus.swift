internal import JSONText
internal import SharedBreaker

/// The document that a relay gives to anyone who asks how it is.
struct RelayStatus {
  /// What a client can ask for.
  enum Question: String {
    /// Everything, with the breakers of all hosts.
    case status

    /// The same without breakers, which costs the server little.
    case figures
  }

  private let context: RelayContext
  private let question: Question

  init(_ context: RelayContext, _ question: Question) {
    self.context = context
    self.question = question
  }

  /// How long the server may take; who asks is waiting.
  private static let patience = Duration.seconds(1)

  /// The document as text.
  var text: String {
    let figures = context.health.now
    // Unknown is not the same as none.
    let hosts = figures.isConnected ? try? hostsOfFleet() : [ownHost]
    return JSONValue.object([
      .init("version", .integer(1)),
      .init("fleet", .string(context.options.fleet)),
      .init("host", .string(context.options.host)),
      .init("connected", .bool(figures.isConnected)),
      .init("since", JSONValue(figures.since?.description)),
      .init("problem", JSONValue(figures.problem)),
      .init("lag_ms", figures.isConnected ? JSONValue(figures.lag) : .null),
      .init("waiting", JSONValue(waiting)),
      .init("applied", .integer(figures.applied)),
      .init("refused", .integer(figures.refused)),
      .init("hosts", hosts.map { .array($0) } ?? .null),
    ]).text
  }

  /// How many commands the other hosts do not know yet; nil if the store does not say.
  private var waiting: Int64? {
    guard let standing = try? context.store.fleetStanding() else { return nil }
    return Int64(standing.waiting)
  }

  /// This host alone, for a time without the server.
  private var ownHost: JSONValue {
    let snapshots = question == .status ? (try? context.store.snapshots()) ?? [] : []
    let breakers = snapshots.compactMap { FleetBreaker($0, at: 0)?.document(at: 0) }
    return Self.host(context.options.host, silence: 0, isSilent: false, breakers)
  }

  private static func host(
    _ name: String, silence: Int64, isSilent: Bool, _ breakers: [JSONValue]?
  ) -> JSONValue {
    let members: [JSONValue.Member] = [
      .init("host", .string(name)), .init("silent_ms", .integer(silence)),
      .init("is_silent", .bool(isSilent)),
    ]
    return .object(members + (breakers.map { [.init("breakers", .array($0))] } ?? []))
  }
}

/// The hosts, as the server knows them.
extension RelayStatus {
  /// How many hosts are asked about at once.
  private static let hostsAtOnce = 500

  private func hostsOfFleet() throws(RedisError) -> [JSONValue] {
    let connection = try RedisConnection(to: context.options.address, patience: Self.patience)
    let answers = try connection.ask([
      ["TIME"], ["ZRANGE", context.keys.hosts, "0", "-1", "WITHSCORES"],
    ])
    guard let now = ServerClock.milliseconds(answers[0]), let seen = answers[1].pairs else {
      throw .unexpected("a question about the hosts")
    }
    let hosts = seen.compactMap { field, score -> (name: String, silence: Int64)? in
      guard let name = field.text, FleetName.complaint(about: name) == nil,
        let at = score.text.flatMap({ Double($0) }), at.magnitude < 1e15
      else { return nil }
      return (name, max(0, now - Int64(at)))
    }.sorted { $0.name < $1.name }
    let limit = max(FleetServer.shortestSilence, 3 * Int64(hosts.count))
    func document(_ host: (name: String, silence: Int64), _ fields: RedisReply?) -> JSONValue {
      Self.host(
        host.name, silence: host.silence, isSilent: host.silence >= limit,
        fields.map { breakers(in: $0, at: now) })
    }
    guard question == .status else { return hosts.map { document($0, nil) } }
    var documents: [JSONValue] = []
    for start in stride(from: 0, to: hosts.count, by: Self.hostsAtOnce) {
      let chunk = hosts[start..<min(start + Self.hostsAtOnce, hosts.count)]
      // The relay waits for this answer before it ends.
      guard !context.isStopped else { throw RedisError("the relay ends") }
      let fields = try connection.ask(chunk.map { ["HGETALL", context.keys.host($0.name)] })
      documents += zip(chunk, fields).map { document($0, $1) }
    }
    return documents
  }

  private func breakers(in fields: RedisReply, at now: Int64) -> [JSONValue] {
    let breakers = (fields.pairs ?? []).compactMap { field, value -> FleetBreaker? in
      guard let name = field.text, let text = value.text else { return nil }
      return FleetBreaker(text, named: name)
    }
    return breakers.sorted { $0.name < $1.name }.map { $0.document(at: now) }
  }
}
