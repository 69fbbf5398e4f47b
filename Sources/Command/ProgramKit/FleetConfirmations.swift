public import JSONText
@_spi(Relay) public import SharedBreaker

/// Which hosts of a fleet have carried out the latest commands to a breaker, as a relay knows it.
///
/// `cbrelay` writes it to its socket, where `cbctl` reads it.
public struct FleetConfirmations: Sendable, Hashable {
  /// The standing of one host about one command.
  public enum Standing: String, Sendable, CaseIterable {
    /// The host has carried it out, or has nothing to do because it has no such breaker.
    case confirmed

    /// The host cannot carry it out.
    case refused

    /// The host has not said yet that it has carried it out.
    case pending

    /// The host has not been heard from for a while, and has not confirmed it.
    case silent
  }

  /// A host of the fleet.
  public struct Host: Sendable, Hashable {
    /// The host's name.
    public var name: String

    /// How far the host has got with the command, as it has reported.
    public var standing: Standing

    /// Why it has refused the command.
    public var why: String?

    /// How long ago the host was last heard from.
    public var silence: Duration

    /// Describes a host.
    public init(_ name: String, _ standing: Standing, why: String? = nil, silence: Duration) {
      self.name = name
      self.standing = standing
      self.why = why
      self.silence = silence
    }
  }

  /// The latest command about one aspect of the breaker that the relay's host knows.
  public struct Command: Sendable, Hashable {
    /// The aspect: `state`, `mode`, or `policy:` with a word of the policy.
    public var aspect: String

    /// The command's stamp, which together with the host distinguishes it from all others.
    public var stamp: Int64

    /// The host on which it was given.
    public var host: String

    /// Its author, as the program says that gave it.
    public var author: String

    /// The user whom the relay of that host has seen giving it; nil if it has seen no user.
    public var verifiedUser: String?

    /// Whether a key of the fleet proves what that relay says of the user.
    public var isProven: Bool

    /// Why it was given; nil if no reason was given.
    public var reason: String?

    /// How long ago it was given.
    public var age: Duration

    /// Whether the server has it, so that every host hears of it.
    public var isTold: Bool

    /// Why it cannot go out for now.
    public var refusal: String?

    /// The host whose later command every host follows instead; nil if there is none.
    public var winner: String?

    /// The standings of the hosts of the fleet; empty if the server does not have it.
    public var hosts: [Host]

    /// Describes a command.
    public init(
      aspect: String, stamp: Int64, host: String, author: String, verifiedUser: String? = nil,
      isProven: Bool = false, reason: String?, age: Duration, isTold: Bool, refusal: String? = nil,
      winner: String? = nil,
      hosts: [Host] = []
    ) {
      self.verifiedUser = verifiedUser
      self.isProven = isProven
      self.aspect = aspect
      self.stamp = stamp
      self.host = host
      self.author = author
      self.reason = reason
      self.age = age
      self.isTold = isTold
      self.refusal = refusal
      self.winner = winner
      self.hosts = hosts
    }

    /// Its giver, and how far it is verified.
    public var giver: FleetGiver {
      FleetGiver(said: author, verifiedUser: verifiedUser, isProven: isProven, host: host)
    }
  }

  /// The commands, the latest first.
  public var commands: [Command]

  /// Why nothing is known of other hosts; nil if the server has answered.
  public var problem: String?

  /// Describes what is known.
  public init(commands: [Command], problem: String? = nil) {
    self.commands = commands
    self.problem = problem
  }
}

/// The document.
extension FleetConfirmations {
  /// The answer of `cbrelay`.
  public var document: JSONValue {
    .object([
      .init("version", .integer(1)), .init("problem", JSONValue(problem)),
      .init("commands", .array(commands.map(\.document))),
    ])
  }

  /// Reads a document; members that this version does not know are ignored.
  public init(document: String) throws(JSONError) {
    let fields = try JSONFields(document, standingFor: "a relay")
    guard fields.number("version") == 1 else {
      throw JSONError(description: "it is not of version 1")
    }
    problem = fields.text("problem")
    commands = try (fields.objects("commands", standingFor: "a command") ?? []).map {
      command throws(JSONError) in
      try Command(command)
    }
  }
}

extension FleetConfirmations.Command {
  /// The command as JSON.
  public var document: JSONValue {
    .object([
      .init("aspect", .string(aspect)), .init("stamp", .integer(stamp)),
      .init("host", .string(host)), .init("by", .string(author)),
      .init("user", JSONValue(verifiedUser)), .init("signed", .bool(isProven)),
      .init("reason", JSONValue(reason)), .init("age_ms", JSONValue(milliseconds: age)),
      .init("published", .bool(isTold)), .init("refusal", JSONValue(refusal)),
      .init("overtaken_by", JSONValue(winner)),
      .init("hosts", .array(hosts.map(\.document))),
    ])
  }

  fileprivate init(_ fields: JSONFields) throws(JSONError) {
    self.init(
      aspect: try fields.requiredText("aspect"), stamp: fields.number("stamp") ?? 0,
      host: try fields.requiredText("host"), author: fields.text("by") ?? "",
      verifiedUser: fields.text("user"), isProven: fields.isTrue("signed"),
      reason: fields.text("reason"), age: fields.milliseconds("age_ms") ?? .zero,
      isTold: fields.isTrue("published"), refusal: fields.text("refusal"),
      winner: fields.text("overtaken_by"),
      hosts: try (fields.objects("hosts", standingFor: "a host") ?? []).map {
        host throws(JSONError) in
        try FleetConfirmations.Host(host)
      })
  }
}

extension FleetConfirmations.Host {
  /// The host as JSON.
  public var document: JSONValue {
    .object([
      .init("host", .string(name)), .init("standing", .string(standing.rawValue)),
      .init("why", JSONValue(why)), .init("silent_ms", JSONValue(milliseconds: silence)),
    ])
  }

  fileprivate init(_ fields: JSONFields) throws(JSONError) {
    let word = try fields.requiredText("standing")
    // A word that only later relays use is at least no confirmation.
    self.init(
      try fields.requiredText("host"), FleetConfirmations.Standing(rawValue: word) ?? .pending,
      why: fields.text("why"), silence: fields.milliseconds("silent_ms") ?? .zero)
  }
}
