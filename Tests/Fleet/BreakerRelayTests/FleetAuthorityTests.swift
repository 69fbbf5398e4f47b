import BreakerRelay
@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

/// Signed messages and commands, and the treatment of unsigned ones.
struct FleetAuthorityTests {
  private static let keys = ["11", "22", "33"].compactMap {
    FleetKey(hexadecimal: String(repeating: $0, count: 32))
  }
  private let authority = FleetAuthority(fleet: "test", keys: [keys[0]])
  private let none = FleetAuthority(fleet: "test")
  private static let now: Int64 = 1_000_000

  private func reply(_ fields: [String: String]) -> RedisReply {
    .array(fields.flatMap { [.bytes(Array($0.key.utf8)), .bytes(Array($0.value.utf8))] })
  }

  /// The result of a check, in a word.
  private enum Proof { case proven, unproven, unsigned, wrong, other }

  private func proof(_ check: () throws(Refusal) -> Bool) -> Proof {
    do throws(Refusal) {
      return try check() ? .proven : .unproven
    } catch {
      switch error.kind {
      case .unsigned: return .unsigned
      case .forged: return .wrong
      default: return .other
      }
    }
  }

  private func proof(of command: FleetCommand) -> Proof {
    proof { () throws(Refusal) in try authority.checked(command, at: Self.now).isProven }
  }

  private func signed(_ fields: [String: String], by authority: FleetAuthority) -> [String: String]
  {
    var fields = fields
    fields["m"] = authority.seal(fields: fields)
    fields["n"] = "7"
    return fields
  }

  private func refusal(
    _ fields: [String: String], _ authority: FleetAuthority? = nil, at now: Int64 = Self.now
  ) -> Refusal.Kind? {
    do throws(Refusal) {
      _ = try FleetMessage(
        reply(fields), receivedAt: now, at: now, believing: authority ?? self.authority)
      return nil
    } catch { return error.kind }
  }

  private let opened = [
    "v": "1", "k": "open", "h": "b", "l": "00ff", "b": "db", "g": "4", "r": "1500", "t": "999900",
  ]

  @Test func `a message counts only as it was signed`() throws {
    let right = signed(opened, by: authority)
    #expect(refusal(right) == nil)
    #expect(refusal(opened) == .unsigned)
    for field in opened.keys where field != "v" {
      var changed = right
      changed[field] = field == "k" ? "closed" : "1"
      #expect(refusal(changed) == .forged, "\(field)")
      changed[field] = nil
      #expect(refusal(changed) == .forged, "without \(field)")
    }
    var more = right
    more["x"] = "1"
    #expect(refusal(more) == .forged)
    for seal in ["", ":", "x", "\(Self.keys[0].id):", String(repeating: "x", count: 10_000)] {
      var changed = right
      changed["m"] = seal
      #expect(refusal(changed) == .forged)
    }
    // Neither another fleet nor another key.
    #expect(
      refusal(signed(opened, by: FleetAuthority(fleet: "prod", keys: [Self.keys[0]]))) == .forged)
    #expect(
      refusal(signed(opened, by: FleetAuthority(fleet: "test", keys: [Self.keys[1]]))) == .forged)
    // A host without a key does not look at seals.
    #expect(refusal(right, none) == nil)
  }

  @Test
  func `while a fleet gets its first key, unsigned messages count, but no forged ones`() {
    let open = FleetAuthority(fleet: "test", keys: [Self.keys[0]], acceptsUnsigned: true)
    var changed = signed(opened, by: authority)
    changed["g"] = "5"
    #expect(refusal(opened, open) == nil)
    #expect(refusal(changed, open) == .forged)
  }

  @Test func `two keys count while one replaces the other`() {
    let both = FleetAuthority(fleet: "test", keys: [Self.keys[1], Self.keys[0]])
    let new = FleetAuthority(fleet: "test", keys: [Self.keys[1]])
    #expect(refusal(signed(opened, by: authority), both) == nil)
    #expect(refusal(signed(opened, by: both), both) == nil)
    #expect(refusal(signed(opened, by: both), new) == nil)
    #expect(refusal(signed(opened, by: authority), new) == .forged)
  }

  @Test func `a message that is sent again does not become younger`() throws {
    let message = try FleetMessage(
      reply(signed(opened, by: authority)), receivedAt: Self.now + 5_000, at: Self.now + 5_000,
      believing: authority)
    #expect(message.content == .open(for: .milliseconds(1_500 - 5_100)))
    #expect(message.sentAt == 999_900)
  }

  private let command = FleetCommand(
    name: "db", action: .policy(set: [.openFor: "5m", .probes: "2"], unset: [.jitter]),
    reason: "why", author: "ann", host: "b", stamp: 12, age: .seconds(3))

  private func fields(_ command: FleetCommand) -> [String: String] {
    [
      "v": "1", "k": "command", "h": command.host, "l": "00ff", "b": command.name,
      "s": String(command.stamp), "c": CommandText.text(of: command), "t": "999900",
    ]
  }

  @Test func `a command counts only as its host has signed it, part by part`() throws {
    let signed = authority.signed(command, at: Self.now)
    #expect(signed.seals.count == 3)
    #expect(proof(of: signed) == .proven)
    for (aspect, part) in signed.byAspect {
      #expect(part.seals.count == 1 && part.byAspect[aspect] == part)
      #expect(proof(of: part) == .proven)
      let read = try CommandText.command(
        CommandText.text(of: part), name: "db", host: "b", stamp: 12)
      #expect(proof(of: read) == .proven)
    }
    let changes: [(inout FleetCommand) -> Void] = [
      { $0.name = "DB" }, { $0.host = "c" }, { $0.stamp = 13 }, { $0.author = "bob" },
      { $0.reason = nil },
      { $0.action = .policy(set: [.openFor: "5m"], unset: [.probes, .jitter]) },
      { $0.seals["policy:probes"] = $0.seals["policy:jitter"] },
    ]
    for (number, change) in changes.enumerated() {
      var changed = signed
      change(&changed)
      #expect(proof(of: changed) == .wrong, "\(number)")
    }
    var cut = signed
    cut.seals["policy:probes"] = nil
    #expect(proof(of: cut) == .unsigned)
    var empty = signed
    empty.action = .policy(set: [:], unset: [])
    #expect(proof(of: empty) == .unsigned)
  }

  @Test func `a command that is sent again is as old as it is`() throws {
    let sent = signed(fields(authority.signed(command, at: Self.now)), by: authority)
    let message = try FleetMessage(
      reply(sent), receivedAt: Self.now + 60_000, at: Self.now + 60_000, believing: authority)
    guard case .command(let read) = message.content else { throw SupportError("no command") }
    #expect(read.age == .milliseconds(63_000))
    #expect(read.seals.count == 3)
  }

  @Test func `unsigned parts make a signed command neither younger nor older`() throws {
    let text = CommandText.text(of: authority.signed(command, at: Self.now))
    for age in ["0", "3100000000"] {
      let other = text.replacing("\"age_ms\":3000", with: "\"age_ms\":\(age)")
      #expect(other != text)
      var state = try FleetState(
        [
          .array([.bytes(Array("1000".utf8)), .bytes(Array("0".utf8))]), .nothing, .nothing,
          .array([]),
        ], believing: authority)
      for given in ["5", "9999999"] {
        state.take(commands: [
          (
            .bytes(Array("db\npolicy:probes".utf8)),
            .bytes(Array("12 b \(given) \(try part(of: other, "policy:probes"))".utf8))
          )
        ])
        #expect(state.refusals.isEmpty)
        #expect(state.commands.values.map(\.age) == [.seconds(3)])
      }
    }
  }

  /// The text of the part of a command that is about one aspect.
  private func part(of text: String, _ aspect: String) throws -> String {
    let command = try CommandText.command(text, name: "db", host: "b", stamp: 12)
    return CommandText.text(of: try #require(command.byAspect[aspect]))
  }

  private static let orders = ["44", "55"].compactMap {
    CommandKey(hexadecimal: String(repeating: $0, count: 32))
  }

  @Test func `a command counts only if a key that is obeyed has signed it`() throws {
    let (first, second) = (Self.orders[0], Self.orders[1])
    // The example of RFC 8032: its secret and the public key.
    let known = CommandKey(
      hexadecimal: "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    #expect(
      known?.name.text
        == "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    #expect(CommandKeyName(first.name.text) == first.name && first.name != second.name)
    for word in ["", "ed25519:", "ed25519:00", "ed448:" + first.name.text.dropFirst(8)] {
      #expect(CommandKeyName(word) == nil)
    }
    #expect(CommandKey(hexadecimal: "00") == nil)
    func host(_ key: CommandKey?, obeying names: [CommandKeyName] = []) -> FleetAuthority {
      FleetAuthority(fleet: "test", keys: [Self.keys[0]], obeyedKeys: names, commandKey: key)
    }
    func isObeyed(_ command: FleetCommand, by authority: FleetAuthority) -> Refusal.Kind? {
      refusal(signed(fields(command), by: authority), authority)
    }
    let obeys = host(nil, obeying: [first.name])
    let ordered = host(first).signed(command, at: Self.now)
    #expect(isObeyed(ordered, by: obeys) == nil)
    #expect(isObeyed(ordered, by: authority) == nil)
    #expect(isObeyed(authority.signed(command, at: Self.now), by: obeys) == .authority)
    #expect(isObeyed(host(second).signed(command, at: Self.now), by: obeys) == .authority)
    // Both count while one replaces the other.
    let both = host(nil, obeying: [first.name, second.name])
    #expect(isObeyed(ordered, by: both) == nil)
    #expect(isObeyed(host(second).signed(command, at: Self.now), by: both) == nil)
    // A host with the fleet's key can neither take the signature of another command nor change one, and a
    // host without that key cannot even cut it.
    for aspect in ordered.seals.keys {
      var changed = ordered
      let words = (ordered.seals[aspect] ?? "").split(separator: ":")
      changed.seals[aspect] = words.prefix(3).joined(separator: ":")
      #expect(isObeyed(changed, by: obeys) == .forged, "\(aspect)")
      #expect(isObeyed(changed, by: authority) == .forged)
      let other = ordered.seals[aspect == "policy:probes" ? "policy:jitter" : "policy:probes"] ?? ""
      changed.seals[aspect] =
        words.prefix(3).joined(separator: ":") + ":"
        + other.split(separator: ":")[3...].joined(separator: ":")
      #expect(isObeyed(changed, by: obeys) == .forged)
      changed.seals[aspect] = "x"
      #expect(isObeyed(changed, by: obeys) == .forged)
    }
    var moved = ordered
    moved.stamp += 1
    #expect(isObeyed(authority.signed(moved, at: Self.now), by: obeys) == .authority)
    #expect(obeys.complaint(aboutCommandsOf: "a")?.contains("--command-key-file") == true)
    #expect(host(second, obeying: [first.name]).complaint(aboutCommandsOf: "a") != nil)
    #expect(host(first, obeying: [first.name]).complaint(aboutCommandsOf: "a") == nil)
    #expect(obeys.obeyedWords == ["key \(first.name.short)"])
  }

  @Test func `a host names the latest commands, and all others only together`() throws {
    func given(_ stamp: Int64, to name: String = "db", on host: String = "b") -> FleetCommand {
      FleetCommand(
        name: name, action: .reset, author: "x", host: host, stamp: stamp, age: .zero)
    }
    func told(_ commands: [FleetCommand]) -> HeardMarks {
      var heard = HeardCommands(commands)
      return HeardMarks(heard.told().text)
    }
    let none = HeardCommands()
    let few = told([given(5), given(7)])
    #expect(few.has(given(5), knowing: none) && few.has(given(7), knowing: none))
    #expect(!few.has(given(6), knowing: none) && !few.has(given(7, on: "c"), knowing: none))
    #expect(!few.has(given(7, to: "api"), knowing: none))
    let all = (1...100).map { given($0, to: "b\($0)") }
    let many = told(all)
    #expect(many.text.utf8.count < 500)
    #expect(many.has(all[99], knowing: none) && many.has(all[68], knowing: none))
    #expect(!many.has(all[67], knowing: none))
    // A reader that has dealt with the same commands knows that it is so with the old ones too.
    #expect(all.allSatisfy { many.has($0, knowing: HeardCommands(all.reversed())) })
    for number in [0, 50] {
      var other = all
      other[number] = given(Int64(number + 1), to: "b\(number + 1)", on: "c")
      #expect(!many.has(all[1], knowing: HeardCommands(other)))
      other.remove(at: number)
      #expect(!many.has(all[1], knowing: HeardCommands(other)))
      #expect(!told(other).has(all[number], knowing: HeardCommands(all)))
      // A command that the reader has not dealt with itself is in no sum.
      #expect(!told(other).has(all[number], knowing: HeardCommands(other)))
    }
    for text in ["", "x", "-1", "0" + String(repeating: " x", count: 100)] {
      #expect(!HeardMarks(text).has(given(1), knowing: none))
    }
  }

  @Test func `a mark counts as its host has signed it, and is recent for a while`() throws {
    let mark = HostMark(lineage: "1", run: "2", sentAt: 100_000)
    let open = FleetAuthority(fleet: "test", keys: [Self.keys[0]], acceptsUnsigned: true)
    func read(_ text: String, _ authority: FleetAuthority) -> Proof {
      proof { () throws(Refusal) in
        try HostMark(text, of: "h", believing: authority).isProven
      }
    }
    #expect(read(authority.sealed(mark.text, .host, ["h"]), authority) == .proven)
    #expect(read(mark.text, authority) == .unsigned)
    #expect(read(mark.text, open) == .unproven && read(mark.text, none) == .unproven)
    #expect(read(authority.sealed(mark.text, .host, ["i"]), open) == .wrong)
    #expect(read("{", none) == .other)
    for (now, isRecent) in [(114_000, true), (115_000, false), (86_000, true), (85_000, false)] {
      #expect(mark.isRecent(at: Int64(now), within: 15_000) == isRecent)
    }
  }

  @Test func `hosts that only seem to be there do not silence the others`() {
    #expect(BeatPace.interval(ofFleet: 1) == 1_000)
    #expect(BeatPace.interval(ofFleet: 5_000) == 5_000)
    #expect(BeatPace.interval(ofFleet: .max) == 10_000)
    #expect(BeatPace.silence(ofFleet: 1) == 15_000)
    #expect(BeatPace.silence(ofFleet: .max) == 30_000)
  }

  @Test func `a host that has the key cannot give commands in the name of another one unsigned`() {
    // The message is signed, and the command in it is not.
    #expect(refusal(signed(fields(command), by: authority)) == .unsigned)
  }

  @Test func `only some hosts are obeyed`() {
    let obeys = FleetAuthority(fleet: "test", keys: [Self.keys[0]], obeyed: ["ops"])
    var other = command
    #expect(
      refusal(signed(fields(obeys.signed(other, at: Self.now)), by: obeys), obeys) == .authority)
    other.host = "ops"
    #expect(refusal(signed(fields(obeys.signed(other, at: Self.now)), by: obeys), obeys) == nil)
    // A message about a breaker of its sender is not a command.
    #expect(refusal(signed(opened, by: obeys), obeys) == nil)
  }

  @Test func `an object with a seal counts as it was signed`() {
    let text = #"{"a":"b"}"#
    let sealed = authority.sealed(text, .host, ["h"])
    #expect(none.sealed(text, .host, ["h"]) == text)
    func read(_ text: String, _ kind: SignedText.Kind, _ host: String) -> Proof {
      proof { () throws(Refusal) in try authority.isProven(object: text, kind, [host], by: host) }
    }
    #expect(read(sealed, .host, "h") == .proven)
    #expect(read(sealed, .host, "i") == .wrong)
    #expect(read(sealed, .breaker, "h") == .wrong)
    #expect(read(text, .host, "h") == .unsigned)
    #expect(read(sealed.replacing("b", with: "c"), .host, "h") == .wrong)
    #expect(read("", .host, "h") == .unsigned)
    #expect(read(#""}"#, .host, "h") == .unsigned)
  }

  @Test func `a host that replays its last word is not heard again`() throws {
    func message(_ content: FleetMessage.Content, at sent: Int64?) -> FleetMessage {
      FleetMessage(content, name: "db", host: "b", lineage: "1", generation: 1, sentAt: sent)
    }
    var view = FleetView(host: "a")
    let open = FleetMessage.Content.open(for: .seconds(100))
    #expect(try view.take(message(open, at: 1_000), at: 1_010))
    #expect(try view.take(message(.closed, at: 2_000), at: 2_010))
    #expect(try !view.take(message(open, at: 1_000), at: 3_000))
    #expect(view.others(open: "db", at: 3_000) == 0)
    #expect(try !view.take(message(.recovered, at: 1_999), at: 3_000))
    #expect(try view.take(message(.recovered, at: 2_000), at: 3_000))
    #expect(try !view.take(message(.recovered, at: 2_000), at: 62_001))
    // If the server's clock is set back, the host is heard at its new times.
    #expect(try view.take(message(open, at: 500), at: 510))
    #expect(view.others(open: "db", at: 510) == 1)
    // Earlier relays do not say when they sent it.
    #expect(try view.take(message(.closed, at: nil), at: 600))
  }
}
