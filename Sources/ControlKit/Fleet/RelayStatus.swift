import BreakerDocuments
import SharedBreaker

/// What a relay knows of its fleet, as it answers over its socket.
struct RelayStatus: Sendable, Hashable {
  /// A host of the fleet, as it last described itself.
  struct Host: Sendable, Hashable {
    var name: String

    /// How long ago the host was last heard of; nil if that is unknown.
    var silence: Duration?

    /// Whether it was silent for so long that it no longer counts.
    var isSilent: Bool
    var breakers: [Standing]
  }

  /// How one breaker stands on one host.
  ///
  /// The words come from a host that may run another version, so they are kept as text.
  struct Standing: Sendable, Hashable {
    var name: String
    var state: String
    var mode: String

    /// How much longer an open breaker rejects calls; zero if it is due, nil if it is not open.
    var openEndsIn: Duration?
    var trips: Int64
  }

  var fleet: String

  /// The name of this host.
  var host: String
  var isConnected: Bool

  /// Since when the relay has been connected, or has not.
  var since: BreakerTimestamp?

  /// Why it is not connected.
  var problem: String?

  /// How far the relay is behind the fleet's stream.
  var lag: Duration?

  /// How many of this host's commands have not reached Redis yet.
  var waiting: Int64

  /// How many commands of other hosts it has applied, and refused, since it started.
  var applied: Int64
  var refused: Int64

  /// The hosts of the fleet; nil if Redis does not tell the relay now.
  var hosts: [Host]?
}

extension RelayStatus {
  static let version: Int64 = 1

  init(document: String) throws(JSONError) {
    let fields = try Fields(document, of: "a relay")
    let version = fields.number("version")
    guard version == Self.version else {
      throw JSONError(
        description: "it has version \(version.map { "\($0)" } ?? "null"), and this cbctl reads "
          + "version \(Self.version)")
    }
    fleet = try fields.requiredText("fleet")
    host = try fields.requiredText("host")
    isConnected = fields.isTrue("connected")
    since = fields.text("since").flatMap { BreakerTimestamp($0) }
    problem = fields.text("problem")
    lag = fields.milliseconds("lag_ms")
    waiting = fields.number("waiting") ?? 0
    applied = fields.number("applied") ?? 0
    refused = fields.number("refused") ?? 0
    hosts = try fields.objects("hosts")?.map { text throws(JSONError) in
      let host = try Fields(text, of: "a host")
      var breakers: [Standing] = []
      for text in try host.objects("breakers") ?? [] {
        let breaker = try Fields(text, of: "a breaker")
        breakers.append(
          Standing(
            name: try breaker.requiredText("name"), state: try breaker.requiredText("state"),
            mode: breaker.text("mode") ?? BreakerMode.automatic.wireName,
            openEndsIn: breaker.milliseconds("open_ends_in_ms"),
            trips: breaker.number("trips") ?? 0))
      }
      return Host(
        name: try host.requiredText("host"), silence: host.milliseconds("silent_ms"),
        isSilent: host.isTrue("is_silent"), breakers: breakers)
    }
  }

  /// The members of an object; those that are unknown are ignored.
  private struct Fields {
    private var values: [String: JSONMember.Value] = [:]

    init(_ text: String, of thing: String) throws(JSONError) {
      for member in try JSONObjectReader.members(of: text, standingFor: thing) {
        values[member.key] = member.value
      }
    }

    func text(_ key: String) -> String? {
      if case .string(let text)? = values[key] { text } else { nil }
    }

    func requiredText(_ key: String) throws(JSONError) -> String {
      guard let text = text(key) else { throw JSONError(description: "it has no \(key)") }
      return text
    }

    func number(_ key: String) -> Int64? {
      if case .number(let text)? = values[key] { Int64(text) } else { nil }
    }

    func milliseconds(_ key: String) -> Duration? {
      number(key).map { .milliseconds(max(0, $0)) }
    }

    func isTrue(_ key: String) -> Bool { values[key] == .bool(true) }

    /// The objects of a list; nil if there is no list.
    func objects(_ key: String) throws(JSONError) -> [String]? {
      guard case .nested(let list)? = values[key] else { return nil }
      var objects: [String] = []
      for element in try JSONObjectReader.elements(of: list, standingFor: key) {
        if case .nested(let object) = element { objects.append(object) }
      }
      return objects
    }
  }
}
