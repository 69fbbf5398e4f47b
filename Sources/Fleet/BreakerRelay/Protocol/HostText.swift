internal import JSONText
@_spi(Relay) package import SharedBreaker

/// A host's description of itself on the server, as JSON text.
package struct HostText: Sendable, Hashable {
  package var lineage: String

  /// Distinguishes this run of the relay from others on the same host.
  package var run: String
  package var since: BreakerTimestamp

  /// By how many milliseconds the clock of the host is ahead of the server's; nil if that is unknown.
  package var skew: Int64?

  /// How far the host has carried out the stream; nil until it has read the state.
  package var position: FleetPosition?

  /// When it is sent, in milliseconds of the server's clock; nil if it is not signed.
  package var sentAt: Int64?

  /// The keys that the host signs and checks with.
  package var keys: [String] = []

  /// The seal of the list of commands that the host has refused; nil if there is none.
  package var refusals: String?

  /// The latest commands that the host has dealt with; nil if it is not signed.
  package var heard: HeardCommands?

  package init(
    lineage: String, run: String, since: BreakerTimestamp, skew: Int64? = nil,
    position: FleetPosition? = nil
  ) {
    self.lineage = lineage
    self.run = run
    self.since = since
    self.skew = skew
    self.position = position
  }

  /// The text without the position.
  package var plain: String { text(with: nil) }

  /// The whole text.
  package var text: String { text(with: position) }

  private func text(with position: FleetPosition?) -> String {
    var members: [JSONValue.Member] = [
      .init("version", .integer(1)), .init("run", .string(run)),
      .init("lineage", .string(lineage)), .init("relay", .string(SharedStore.version)),
      .init("since", .string(since.description)), .init("confirms", .bool(true)),
      .init("protocol", .integer(FleetMessage.protocolVersion)),
    ]
    if !keys.isEmpty { members.append(.init("keys", .string(keys.joined(separator: " ")))) }
    if let sentAt { members.append(.init("sent", .integer(sentAt))) }
    if let heard { members.append(.init("heard", .string(heard.text))) }
    if let refusals { members.append(.init("refusals", .string(refusals))) }
    if let skew { members.append(.init("skew_ms", .integer(skew))) }
    if let position {
      members += [
        .init("read_epoch", .string(position.epoch)), .init("read", .integer(position.number)),
      ]
    }
    return JSONValue.object(members).text
  }
}

/// A host's description as it is read; another version may have written it.
package struct HostDescription: Sendable, Hashable {
  package var lineage: String?
  package var skew: Int64?

  /// Whether the host tells how far it has read.
  package var confirms: Bool

  /// The epoch and the number up to which it has carried out the stream.
  package var epoch: String?
  package var number: Int64?

  /// The proof that the host has written it.
  package var proof: FleetAuthority.Proof

  /// The versions of the relay and of the protocol that it speaks; nil if it does not tell.
  package var relay: String?
  package var speaks: Int64?

  /// The keys that the host signs and checks with, the one that signs first.
  package var keys: [String]

  /// When it was sent, in milliseconds of the server's clock; nil if it is not signed.
  package var sentAt: Int64?

  /// The seal of the list of commands that the host has refused.
  package var refusals: String?

  /// The latest commands that the host has dealt with; nil if it does not tell.
  package var heard: HeardCommands?

  /// Reads a description; nil if it makes no sense.
  package init?(
    _ text: String, of host: String = "",
    believing authority: FleetAuthority = FleetAuthority(fleet: "")
  ) {
    guard text.utf8.count <= 2_048, let fields = try? JSONFields(text, standingFor: "a host") else {
      return nil
    }
    lineage = fields.text("lineage")
    let longest = ServerClock.latest
    skew = fields.number("skew_ms").flatMap { (-longest...longest).contains($0) ? $0 : nil }
    confirms = fields.isTrue("confirms")
    epoch = fields.text("read_epoch")
    number = fields.number("read").flatMap { $0 >= 0 ? $0 : nil }
    proof = authority.proof(of: text, .host, [host])
    relay = fields.text("relay").flatMap { $0.utf8.count <= 255 ? $0 : nil }
    speaks = fields.number("protocol")
    keys = (fields.text("keys") ?? "").split(separator: " ").prefix(4).map(String.init)
    sentAt = fields.number("sent").flatMap { (0...ServerClock.latest).contains($0) ? $0 : nil }
    refusals = fields.text("refusals")
    heard = fields.text("heard").flatMap { HeardCommands($0) }
  }

  /// Whether a relay has written it lately, so that the name is that relay's.
  ///
  /// Without a signature only the server says when that was.
  package func isAtWork(
    at now: Int64, within silence: Int64, to authority: FleetAuthority
  ) -> Bool {
    guard authority.accepts(proof) else { return false }
    guard proof == .proven else { return true }
    return sentAt.map { (now - $0).magnitude < silence } ?? false
  }

  /// Whether the host has carried out a command, whose message has this number in an epoch.
  ///
  /// If it signs what it has heard, that decides, as far as it goes back.
  package func hasCarriedOut(
    _ command: FleetCommand, as message: Int64, of epoch: String, at now: Int64
  ) -> Bool {
    if proof == .proven, !command.isForgotten, let has = heard?.has(command) {
      return confirms && has
    }
    return hasRead(message, of: epoch, since: now - DurationText.milliseconds(command.age))
  }

  /// Whether the host has read a message of an epoch.
  ///
  /// If a signed description is older than the command, an attacker has put it back.
  package func hasRead(_ message: Int64, of epoch: String, since given: Int64 = 0) -> Bool {
    guard confirms, self.epoch == epoch, let number else { return false }
    if proof == .proven, (sentAt ?? 0) < given { return false }
    return number >= message
  }
}

/// A command that a host has refused, and why.
package struct RefusedCommand: Sendable, Hashable {
  package var name: String
  package var stamp: Int64

  /// The host on which it was given.
  package var host: String
  package var why: String

  package init(name: String, stamp: Int64, host: String, _ why: String) {
    self.name = name
    self.stamp = stamp
    self.host = host
    self.why = why
  }
}

/// The commands that a host has refused, as the other hosts read them.
package struct RefusedCommands: Sendable, Hashable {
  package var commands: [RefusedCommand]

  /// Whether the host has refused more than it lists, so that it may have refused any command.
  package var hasMore: Bool

  /// How many are listed.
  package static let room = 100

  private static let longest = 262_144

  package init(_ commands: [RefusedCommand]) {
    self.commands = Array(commands.prefix(Self.room))
    hasMore = commands.count > Self.room
  }

  /// The text; nil if there are none.
  package var text: String? {
    guard !commands.isEmpty else { return nil }
    let list = commands.map { command in
      JSONValue.object([
        .init("name", .string(command.name)), .init("stamp", .integer(command.stamp)),
        .init("host", .string(command.host)), .init("why", .string(command.why)),
      ])
    }
    return JSONValue.object([.init("commands", .array(list)), .init("more", .bool(hasMore))]).text
  }

  /// Reads a text; one that makes no sense may stand for any command.
  package init(_ text: String) {
    commands = []
    hasMore = true
    guard text.utf8.count <= Self.longest,
      let fields = try? JSONFields(text, standingFor: "refusals"),
      let list = try? fields.objects("commands", standingFor: "a refusal"), list.count <= Self.room
    else { return }
    hasMore = fields.isTrue("more")
    for entry in list {
      guard let name = entry.text("name"), let stamp = entry.number("stamp"),
        let host = entry.text("host"), let why = entry.text("why")
      else {
        hasMore = true
        continue
      }
      commands.append(RefusedCommand(name: name, stamp: stamp, host: host, why))
    }
  }

  /// Why the host has not carried out a command; nil if it has not refused it.
  package func why(_ name: String, stamp: Int64, host: String) -> String? {
    let found = commands.first {
      $0.stamp == stamp && $0.host == host && $0.name.utf8.elementsEqual(name.utf8)
    }
    if let found { return found.why }
    return hasMore ? "it has refused more commands than it lists" : nil
  }
}
