import BreakerDocuments
import ProgramKit
import SharedBreaker

/// The document of `fleet status --json`; members are only ever added.
enum FleetDocument {
  /// The document about a fleet whose relay has answered, with the breakers that were asked for.
  static func of(
    _ status: RelayStatus, showing overview: FleetOverview, _ commands: [NamedConfirmations] = []
  ) -> JSONValue {
    let hosts = overview.hosts.enumerated().map { place, host in
      json(host, overview.rows.compactMap { $0.standings[place] })
    }
    return .object([
      .init("fleet", .string(status.fleet)),
      .init("host", .string(status.host)),
      .init(
        "relay",
        .object([
          .init("running", .bool(true)),
          .init("connected", .bool(status.isConnected)),
          .init("since", BreakerDocument.time(status.since)),
          .init("problem", JSONValue(status.problem)),
          .init("lag_ms", JSONValue(milliseconds: status.lag)),
          .init("waiting", JSONValue(status.waiting)),
          .init("applied", .integer(status.applied)),
          .init("refused", .integer(status.refused)),
          .init("skew_ms", JSONValue(status.skew.map { DurationText.milliseconds($0) })),
          .init("unproven", .integer(status.unproven)),
          .init("keys", .array(status.keys.map { .string($0) })),
          .init("accepts_unsigned", .bool(status.acceptsUnsigned)),
          .init("obeyed", status.obeyed.map { .array($0.map { .string($0) }) } ?? .null),
        ])),
      .init("hosts", .array(hosts + overview.silent.map { json($0, []) })),
      .init("commands", .array(commands.flatMap(\.documents))),
    ])
  }

  /// The document about a fleet whose relay does not answer: what the store knows.
  static func of(_ standing: FleetStanding) -> JSONValue {
    .object([
      .init("fleet", .string(standing.fleet)),
      .init("host", .string(standing.host)),
      .init(
        "relay",
        .object([
          .init("running", .bool(standing.isRelayRunning)),
          .init("connected", .bool(standing.isConnected)),
          .init("since", BreakerDocument.time(standing.isRelayRunning ? standing.changedAt : nil)),
          .init("problem", JSONValue(standing.problem)),
          .init("lag_ms", .null),
          .init("waiting", .integer(Int64(standing.waiting))),
          .init("applied", .null),
          .init("refused", .null),
          .init("skew_ms", .null),
          .init("unproven", .null),
          .init("keys", .array([])),
          .init("accepts_unsigned", .null),
          .init("obeyed", .null),
        ])),
      .init("hosts", .array([])),
      .init("commands", .array([])),
    ])
  }

  private static func json(
    _ host: RelayStatus.Host, _ standings: [RelayStatus.Standing]
  ) -> JSONValue {
    .object([
      .init("host", .string(host.name)),
      .init("silent", .bool(host.isSilent)),
      .init("silent_ms", JSONValue(milliseconds: host.silence)),
      .init("skew_ms", JSONValue(host.skew.map { DurationText.milliseconds($0) })),
      .init("relay", JSONValue(host.relay)),
      .init("protocol", .integer(host.speaks)),
      .init("signed", host.isProven.map { .bool($0) } ?? .null),
      .init("keys", .array(host.keys.map { .string($0) })),
      .init("breakers", .array(standings.map(\.document))),
    ])
  }
}
