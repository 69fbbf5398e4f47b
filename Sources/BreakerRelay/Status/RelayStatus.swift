internal import BreakerDocuments
internal import SharedBreaker

/// The document that a relay gives to whoever asks how it fares.
struct RelayStatus {
  private let context: RelayContext

  init(_ context: RelayContext) { self.context = context }

  /// How long the server may take; who asks is waiting.
  private static let patience = Duration.seconds(1)

  /// The document as text.
  var text: String {
    let figures = context.health.now
    let hosts = figures.isConnected ? try? hostsOfFleet() : nil
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
      .init("hosts", .array(hosts ?? [ownHost])),
    ]).text
  }

  /// How many commands the other hosts do not know yet; nil if the store does not say.
  private var waiting: Int64? {
    guard let standing = try? context.store.fleetStanding() else { return nil }
    return Int64(standing.waiting)
  }

  /// This host alone, for a time without the server.
  private var ownHost: JSONValue {
    let snapshots = (try? context.store.snapshots()) ?? []
    let breakers = snapshots.compactMap { FleetBreaker($0, at: 0)?.document(at: 0) }
    return Self.host(context.options.host, silence: 0, isSilent: false, breakers)
  }

  private static func host(
    _ name: String, silence: Int64, isSilent: Bool, _ breakers: [JSONValue]
  ) -> JSONValue {
    .object([
      .init("host", .string(name)), .init("silent_ms", .integer(silence)),
      .init("is_silent", .bool(isSilent)), .init("breakers", .array(breakers)),
    ])
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
    guard let time = answers[0].elements, time.count == 2, let seconds = time[0].number,
      let microseconds = time[1].number, let seen = answers[1].pairs
    else { throw .unexpected("a question about the hosts") }
    let now = seconds * 1_000 + microseconds / 1_000
    let hosts = seen.compactMap { field, score -> (name: String, silence: Int64)? in
      guard let name = field.text, FleetName.complaint(about: name) == nil,
        let at = score.text.flatMap({ Double($0) }), at.magnitude < 1e15
      else { return nil }
      return (name, max(0, now - Int64(at)))
    }.sorted { $0.name < $1.name }
    let limit = max(FleetServer.shortestSilence, 3 * Int64(hosts.count))
    var documents: [JSONValue] = []
    for start in stride(from: 0, to: hosts.count, by: Self.hostsAtOnce) {
      let chunk = hosts[start..<min(start + Self.hostsAtOnce, hosts.count)]
      let fields = try connection.ask(chunk.map { ["HGETALL", context.keys.host($0.name)] })
      for (host, fields) in zip(chunk, fields) {
        documents.append(
          Self.host(
            host.name, silence: host.silence, isSilent: host.silence >= limit,
            breakers(in: fields, at: now)))
      }
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
