internal import JSONText
@_spi(Relay) package import SharedBreaker

/// Everything that a host says of itself, as JSON that it signs as a whole.
package struct HostMark: Sendable, Hashable {
  package var lineage: String

  /// Distinguishes this run of the relay from others on the same host.
  package var run: String

  /// When it was sent, in milliseconds of the server's clock.
  package var sentAt: Int64

  /// The version of the relay, and of the protocol that it speaks.
  package var relay = SharedStore.version
  package var speaks = FleetMessage.protocolVersion

  /// The keys that the host signs and checks with, the one that signs first.
  package var keys: [String] = []

  /// By how many milliseconds the clock of the host is ahead of the server's; nil if that is unknown.
  package var skew: Int64?

  /// The commands that the host has dealt with.
  package var heard = HeardMarks()

  /// The latest commands that the host has refused.
  package var refused: [RefusedCommand] = []

  /// Whether the host has left the fleet in order.
  package var hasLeft = false

  /// Whether a key of the fleet proves it.
  package private(set) var isProven = false

  package init(lineage: String, run: String, sentAt: Int64) {
    self.lineage = lineage
    self.run = run
    self.sentAt = sentAt
  }

  /// How many refused commands are listed, so that no mark becomes large.
  package static let roomForRefused = 16

  /// How many bytes a mark has at most.
  static let longest = 16_384

  /// The text, without a seal.
  package var text: String {
    var members: [JSONValue.Member] = [
      .init("protocol", .integer(speaks)), .init("relay", .string(relay)),
      .init("lineage", .string(lineage)), .init("run", .string(run)),
      .init("sent", .integer(sentAt)), .init("heard", .string(heard.text)),
    ]
    if !keys.isEmpty { members.append(.init("keys", .string(keys.joined(separator: " ")))) }
    if let skew { members.append(.init("skew_ms", .integer(skew))) }
    if !refused.isEmpty { members.append(.init("refused", .array(refused.map(\.document)))) }
    if hasLeft { members.append(.init("left", .bool(true))) }
    return JSONValue.object(members).text
  }

  /// Reads a mark.
  ///
  /// - Throws: `Refusal` if it makes no sense, or does not count as the host's.
  package init(
    _ text: String, of host: String, believing authority: FleetAuthority
  ) throws(Refusal) {
    let isProven =
      text.utf8.count <= Self.longest
      ? try authority.isProven(object: text, .host, [host], by: host) : false
    guard text.utf8.count <= Self.longest,
      let fields = try? JSONFields(text, standingFor: "a host"),
      let lineage = fields.text("lineage"), let run = fields.text("run"),
      let sent = fields.number("sent"), (0...ServerClock.latest).contains(sent)
    else { throw Refusal(.unreadable, host: host, "what it says of itself makes no sense") }
    self.init(lineage: lineage, run: run, sentAt: sent)
    self.isProven = isProven
    relay = fields.text("relay").map { String($0.prefix(64)) } ?? ""
    speaks = fields.number("protocol") ?? 0
    keys = (fields.text("keys") ?? "").split(separator: " ").prefix(4).map(String.init)
    let longest = ServerClock.latest
    skew = fields.number("skew_ms").flatMap { (-longest...longest).contains($0) ? $0 : nil }
    heard = HeardMarks(fields.text("heard") ?? "")
    let list = (try? fields.objects("refused", standingFor: "a refusal")) ?? nil
    refused = (list ?? []).prefix(Self.roomForRefused).compactMap { RefusedCommand($0) }
    hasLeft = fields.isTrue("left")
  }

  /// Whether its relay has sent it lately.
  package func isRecent(at now: Int64, within silence: Int64) -> Bool {
    (now - sentAt).magnitude < silence
  }

  /// Why the host has refused a command; nil if it has not.
  package func why(_ command: FleetCommand) -> String? {
    refused.first {
      $0.stamp == command.stamp && $0.host == command.host
        && $0.name.utf8.elementsEqual(command.name.utf8)
    }?.why
  }
}

/// A command that a host has refused, and why.
package struct RefusedCommand: Sendable, Hashable {
  package var name: String
  package var stamp: Int64

  /// The host on which it was given.
  package var host: String
  package var why: String

  package init(_ command: FleetCommand, _ why: String) {
    name = command.name
    stamp = command.stamp
    host = command.host
    self.why = why
  }

  fileprivate var document: JSONValue {
    .object([
      .init("name", .string(name)), .init("stamp", .integer(stamp)), .init("host", .string(host)),
      .init("why", .string(String(why.prefix(200)))),
    ])
  }

  fileprivate init?(_ fields: JSONFields) {
    guard let name = fields.text("name"), let stamp = fields.number("stamp"),
      let host = fields.text("host"), let why = fields.text("why")
    else { return nil }
    (self.name, self.stamp, self.host, self.why) = (name, stamp, host, why)
  }
}
