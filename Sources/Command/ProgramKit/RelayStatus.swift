public import JSONText
@_spi(Relay) public import SharedBreaker

/// A relay's knowledge of its fleet; `cbrelay` writes it to its socket, where `cbctl` reads it.
public struct RelayStatus: Sendable, Hashable {
  /// A question of a client to a relay.
  public enum Question: Sendable, Hashable {
    /// The fleet, with each host's breakers.
    case status

    /// The fleet without breakers: the server need not read them from every host.
    case figures

    /// Which hosts have carried out the latest commands to a breaker.
    case confirmations(of: String)

    /// To forget a host that is gone for good.
    case forgetting(host: String)

    /// To note who is about to give a command.
    case giving(FleetGiving)

    /// How many bytes a question may have.
    public static let longest = 262_144

    private static let confirmations = "confirmations "
    private static let forgetting = "forget "
    private static let giving = "giving "

    /// The words of the question, without the line feed at their end.
    public var words: String {
      switch self {
      case .status: "status"
      case .figures: "figures"
      case .confirmations(let name): Self.confirmations + name
      case .forgetting(let host): Self.forgetting + host
      case .giving(let giving): Self.giving + giving.words
      }
    }

    /// Reads a question; nil if it is none.
    public init?(words: String) {
      switch words {
      case "status": self = .status
      case "figures": self = .figures
      default:
        if words.hasPrefix(Self.forgetting) {
          self = .forgetting(host: String(words.dropFirst(Self.forgetting.count)))
          return
        }
        if words.hasPrefix(Self.giving) {
          guard let giving = FleetGiving(words: String(words.dropFirst(Self.giving.count))) else {
            return nil
          }
          self = .giving(giving)
          return
        }
        guard words.hasPrefix(Self.confirmations) else { return nil }
        self = .confirmations(of: String(words.dropFirst(Self.confirmations.count)))
      }
    }
  }

  /// A host of the fleet, as it last described itself.
  public struct Host: Sendable, Hashable {
    /// The host's name in the fleet.
    public var name: String

    /// How long ago the host was last heard from; nil if that is unknown.
    public var silence: Duration?

    /// Whether the host has been silent for so long that it no longer counts.
    public var isSilent: Bool

    /// By how much the host's clock is ahead of the server's; nil if the host does not tell.
    public var skew: Duration?

    /// The version of its relay; nil if it does not tell.
    public var relay: String?

    /// The version of the protocol that its relay speaks.
    public var speaks: Int64

    /// Whether its description is signed with a key of the fleet; nil if this host has no key.
    public var isProven: Bool?

    /// The names of its keys, the one that signs first.
    public var keys: [String]

    /// The host's breakers; empty if the question was not about them.
    public var breakers: [Standing]

    /// Describes a host.
    public init(
      name: String, silence: Duration?, isSilent: Bool, skew: Duration? = nil,
      relay: String? = nil, speaks: Int64 = 1, isProven: Bool? = nil, keys: [String] = [],
      breakers: [Standing]
    ) {
      self.relay = relay
      self.speaks = speaks
      self.isProven = isProven
      self.keys = keys
      self.skew = skew
      self.name = name
      self.silence = silence
      self.isSilent = isSilent
      self.breakers = breakers
    }
  }

  /// How one breaker stands on one host.
  ///
  /// The words come from a host that may run another version, so they are kept as text.
  public struct Standing: Sendable, Hashable {
    /// The breaker's name.
    public var name: String

    /// The wire name of its state.
    public var state: String

    /// The wire name of its mode.
    public var mode: String

    /// How much longer an open breaker rejects calls; zero if it is due, nil if it is not open.
    public var openEndsIn: Duration?

    /// How often it has tripped.
    public var trips: Int64

    /// Describes a breaker.
    public init(
      name: String, state: String, mode: String, openEndsIn: Duration? = nil, trips: Int64
    ) {
      self.name = name
      self.state = state
      self.mode = mode
      self.openEndsIn = openEndsIn
      self.trips = trips
    }
  }

  /// The name of the fleet.
  public var fleet: String

  /// The name of this host.
  public var host: String

  /// Whether the relay is connected to the server.
  public var isConnected: Bool

  /// Since when the relay has been connected, or has not.
  public var since: BreakerTimestamp?

  /// Why it is not connected.
  public var problem: String?

  /// How long the latest message took to arrive; zero once all have been read.
  public var lag: Duration?

  /// By how much this host's clock is ahead of the server's; nil if that is unknown.
  public var skew: Duration?

  /// How many of this host's commands have not reached Redis yet; nil if the store cannot be read.
  public var waiting: Int64?

  /// How many commands of other hosts it has applied since it started.
  public var applied: Int64

  /// How many messages and commands of other hosts it has refused since it started.
  public var refused: Int64

  /// How many of these were not signed with a key of the fleet.
  public var unproven: Int64

  /// The names of the fleet's keys, the one that signs first; empty if nothing is signed.
  public var keys: [String]

  /// Whether unsigned texts are still accepted, during the introduction of the first key.
  public var acceptsUnsigned: Bool

  /// The hosts whose commands this host obeys; nil for those of every host.
  public var obeyed: [String]?

  /// The hosts of the fleet; nil if Redis does not answer the relay.
  public var hosts: [Host]?

  /// Describes a fleet as one of its relays knows it.
  public init(
    fleet: String, host: String, isConnected: Bool, since: BreakerTimestamp? = nil,
    problem: String? = nil, lag: Duration? = nil, skew: Duration? = nil, waiting: Int64?,
    applied: Int64, refused: Int64, unproven: Int64 = 0, keys: [String] = [],
    acceptsUnsigned: Bool = false, obeyed: [String]? = nil, hosts: [Host]? = nil
  ) {
    self.unproven = unproven
    self.keys = keys
    self.acceptsUnsigned = acceptsUnsigned
    self.obeyed = obeyed
    self.fleet = fleet
    self.host = host
    self.isConnected = isConnected
    self.since = since
    self.problem = problem
    self.lag = lag
    self.skew = skew
    self.waiting = waiting
    self.applied = applied
    self.refused = refused
    self.hosts = hosts
  }
}

/// The status as a document.
extension RelayStatus {
  private static let version: Int64 = 1

  /// The document that answers a question.
  public func document(answering question: Question) -> JSONValue {
    .object([
      .init("version", .integer(Self.version)),
      .init("fleet", .string(fleet)),
      .init("host", .string(host)),
      .init("connected", .bool(isConnected)),
      .init("since", JSONValue(since?.description)),
      .init("problem", JSONValue(problem)),
      .init("lag_ms", JSONValue(milliseconds: lag)),
      .init("skew_ms", JSONValue(skew.map { DurationText.milliseconds($0) })),
      .init("waiting", JSONValue(waiting)),
      .init("applied", .integer(applied)),
      .init("refused", .integer(refused)),
      .init("unproven", .integer(unproven)),
      .init("keys", .array(keys.map { .string($0) })),
      .init("accepts_unsigned", .bool(acceptsUnsigned)),
      .init("obeyed", obeyed.map { .array($0.map { .string($0) }) } ?? .null),
      .init("hosts", hosts.map { .array($0.map { $0.document(answering: question) }) } ?? .null),
    ])
  }

  /// Reads a document; members that this version does not know are ignored.
  public init(document: String) throws(JSONError) {
    let fields = try JSONFields(document, standingFor: "a relay")
    let version = fields.number("version")
    guard version == Self.version else {
      throw JSONError(
        description: "it has version \(version.map { "\($0)" } ?? "null"), and this cbctl reads "
          + "version \(Self.version)")
    }
    self.init(
      fleet: try fields.requiredText("fleet"), host: try fields.requiredText("host"),
      isConnected: fields.isTrue("connected"),
      since: fields.text("since").flatMap { BreakerTimestamp($0) },
      problem: fields.text("problem"), lag: fields.milliseconds("lag_ms"),
      skew: fields.number("skew_ms").map { .milliseconds($0) },
      waiting: fields.number("waiting"), applied: fields.number("applied") ?? 0,
      refused: fields.number("refused") ?? 0, unproven: fields.number("unproven") ?? 0,
      keys: fields.texts("keys") ?? [], acceptsUnsigned: fields.isTrue("accepts_unsigned"),
      obeyed: fields.texts("obeyed"),
      hosts: try fields.objects("hosts", standingFor: "a host")?.map { host throws(JSONError) in
        try Host(host)
      })
  }
}

extension RelayStatus.Host {
  fileprivate func document(answering question: RelayStatus.Question) -> JSONValue {
    let members: [JSONValue.Member] = [
      .init("host", .string(name)), .init("silent_ms", JSONValue(milliseconds: silence)),
      .init("is_silent", .bool(isSilent)),
      .init("skew_ms", JSONValue(skew.map { DurationText.milliseconds($0) })),
      .init("relay", JSONValue(relay)), .init("speaks", .integer(speaks)),
      .init("signed", isProven.map { .bool($0) } ?? .null),
      .init("keys", .array(keys.map { .string($0) })),
    ]
    return switch question {
    case .status: .object(members + [.init("breakers", .array(breakers.map(\.document)))])
    case .figures, .confirmations, .forgetting, .giving: .object(members)
    }
  }

  fileprivate init(_ fields: JSONFields) throws(JSONError) {
    self.init(
      name: try fields.requiredText("host"), silence: fields.milliseconds("silent_ms"),
      isSilent: fields.isTrue("is_silent"),
      skew: fields.number("skew_ms").map { .milliseconds($0) },
      relay: fields.text("relay"), speaks: fields.number("speaks") ?? 1,
      isProven: fields["signed"].flatMap { if case .bool(let signed) = $0 { signed } else { nil } },
      keys: fields.texts("keys") ?? [],
      breakers: try (fields.objects("breakers", standingFor: "a breaker") ?? []).map {
        breaker throws(JSONError) in
        try RelayStatus.Standing(breaker)
      })
  }
}

extension RelayStatus.Standing {
  /// The document of a breaker on one host.
  public var document: JSONValue {
    .object([
      .init("name", .string(name)), .init("state", .string(state)), .init("mode", .string(mode)),
      .init("open_ends_in_ms", JSONValue(milliseconds: openEndsIn)),
      .init("trips", .integer(trips)),
    ])
  }

  fileprivate init(_ fields: JSONFields) throws(JSONError) {
    self.init(
      name: try fields.requiredText("name"), state: try fields.requiredText("state"),
      mode: fields.text("mode") ?? BreakerMode.automatic.wireName,
      openEndsIn: fields.milliseconds("open_ends_in_ms"), trips: fields.number("trips") ?? 0)
  }
}
