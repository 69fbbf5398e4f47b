import BreakerRelay
import Glibc
import SharedBreaker
import TestSupport
import Testing

/// The keys of a fleet, and the file that holds them.
struct FleetKeyTests {
  private static let secret = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
  private static let other = String(repeating: "7f", count: 32)

  @Test func `a code is the one that other programs compute`() throws {
    let key = try #require(FleetKey(hexadecimal: Self.secret))
    let text = SignedText(.message, of: "test", ["a", "b"])
    let code = "b8bed38cebca768c7878ce9df6a422aa175487b22b45fa4353b31628729b923a"
    #expect(key.id == "0b7e6e01")
    #expect(key.code(of: text) == code)
    #expect(key.accepts(code, of: text))
    #expect(!key.accepts(code.dropLast(), of: text))
    #expect(!key.accepts(code.replacing("b8", with: "b9"), of: text))
    #expect(!key.accepts("", of: text))
    #expect(!key.accepts(code, of: SignedText(.message, of: "test", ["ab"])))
    #expect(!key.accepts(code, of: SignedText(.message, of: "prod", ["a", "b"])))
    #expect(!key.accepts(code, of: SignedText(.command, of: "test", ["a", "b"])))
    #expect(FleetKey(hexadecimal: Self.secret.uppercased()) == key)
  }

  @Test(arguments: [
    "", "00", "x", String(repeating: "0", count: 63), String(repeating: "0", count: 65),
    String(repeating: "0", count: 258), String(repeating: "0g", count: 32),
  ])
  func `what is no secret is no key`(text: String) {
    #expect(FleetKey(hexadecimal: text) == nil)
  }

  @Test func `lists of values never look alike`() {
    let lists = [
      ["ab"], ["a", "b"], ["", "ab"], ["a", "", "b"], ["1:a1:b"], ["a1:b"], [], [""], ["é"],
      ["e\u{301}"],
    ]
    #expect(Set(lists.map { SignedText(.message, of: "f", $0).bytes }).count == lists.count)
  }

  private func request(_ path: String, _ rest: String = "") throws -> RelayOptions {
    let words = "--redis redis://h --fleet f --key-file \(path) \(rest)".split(separator: " ")
    let request = try RelayRequest(
      arguments: words.map(String.init), environment: [:], hostName: "h")
    guard case .run(let options) = request else { throw SupportError("it does not run") }
    return options
  }

  private func file(_ text: String, mode: mode_t = 0o600) throws -> (TemporaryDirectory, String) {
    let directory = try TemporaryDirectory()
    let path = directory.file("keys")
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    let bytes = Array(text.utf8)
    guard unsafe write(descriptor, bytes, bytes.count) == bytes.count else {
      throw SupportError("write \(path)", errno)
    }
    close(descriptor)
    unsafe chmod(path, mode)
    return (directory, path)
  }

  private func error(_ text: String, mode: mode_t = 0o600) throws -> String {
    let (directory, path) = try file(text, mode: mode)
    defer { withExtendedLifetime(directory) {} }
    return #expect(throws: UsageError.self) { try request(path) }?.description ?? ""
  }

  @Test func `the first key signs, and both count`() throws {
    let (directory, path) = try file("# new\n\n  \(Self.other)\r\n\(Self.secret)")
    defer { withExtendedLifetime(directory) {} }
    let options = try request(path, "--obey ops-1,ops-2 --unsigned accept")
    let keys = [Self.other, Self.secret].compactMap { FleetKey(hexadecimal: $0) }
    #expect(options.keys == keys)
    #expect(options.authority.keyNames == keys.map(\.id))
    #expect(options.obeyed == ["ops-1", "ops-2"] && options.acceptsUnsigned)
    #expect(try request(path).acceptsUnsigned == false)
  }

  @Test func `a file that holds no keys is refused, and shows nothing of them`() throws {
    #expect(try error("").contains("has 0 keys"))
    #expect(try error("\(Self.secret)\n\(Self.secret)").contains("the same twice"))
    #expect(
      try error(
        [Self.secret, Self.other, String(repeating: "1", count: 64)]
          .joined(separator: "\n")
      ).contains("has 3 keys"))
    let typo = try error("#\n\(Self.secret)x")
    #expect(typo.hasPrefix("line 2 of ") && !typo.contains("0001"))
    #expect(try error(String(repeating: "#", count: 5_000)).contains("something else"))
    for path in ["/no/such", "/", "/dev/null"] {
      #expect(throws: UsageError.self) { try request(path) }
    }
  }

  @Test func `a file that others can read or change is refused`() throws {
    for mode: mode_t in [0o604, 0o644, 0o602, 0o620] {
      let words = try error(Self.secret, mode: mode)
      #expect(words.contains(mode & 0o022 == 0 ? "others could read" : "others could change"))
    }
    let (directory, path) = try file(Self.secret, mode: 0o640)
    defer { withExtendedLifetime(directory) {} }
    #expect(try request(path).keys.count == 1)
  }

  @Test func `roles and exceptions mean nothing without a key`() {
    for words in ["--obey ops", "--unsigned accept", "--unsigned refuse"] {
      #expect(throws: UsageError.self) {
        try RelayRequest(
          arguments: "--redis redis://h --fleet f \(words)".split(separator: " ").map(String.init),
          environment: [:], hostName: "h")
      }
    }
  }
}

/// What is signed, and what happens to what is not.
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
    // Who has no key does not look at seals.
    #expect(refusal(right, none) == nil)
  }

  @Test
  func `while a fleet gets its first key, what is not signed counts, but nothing that is wrong`() {
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

  @Test func `a message that is sent again is not younger for it`() throws {
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
    #expect(authority.proof(of: signed, at: Self.now).proof == .proven)
    for (aspect, part) in signed.byAspect {
      #expect(part.seals.count == 1 && part.byAspect[aspect] == part)
      #expect(authority.proof(of: part, at: Self.now).proof == .proven)
      let read = try CommandText.command(
        CommandText.text(of: part), name: "db", host: "b", stamp: 12)
      #expect(authority.proof(of: read, at: Self.now).proof == .proven)
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
      #expect(authority.proof(of: changed, at: Self.now).proof == .wrong, "\(number)")
    }
    var cut = signed
    cut.seals["policy:probes"] = nil
    #expect(authority.proof(of: cut, at: Self.now).proof == .unsigned)
    var empty = signed
    empty.action = .policy(set: [:], unset: [])
    #expect(authority.proof(of: empty, at: Self.now).proof == .unsigned)
  }

  @Test func `a command that is sent again is as old as it is`() throws {
    let sent = signed(fields(authority.signed(command, at: Self.now)), by: authority)
    let message = try FleetMessage(
      reply(sent), receivedAt: Self.now + 60_000, at: Self.now + 60_000, believing: authority)
    guard case .command(let read) = message.content else { throw SupportError("no command") }
    #expect(read.age == .milliseconds(63_100))
    #expect(read.seals.count == 3)
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
    // What a host tells of its own breakers is not a command.
    #expect(refusal(signed(opened, by: obeys), obeys) == nil)
  }

  @Test func `an object with a seal counts as it was signed`() {
    let text = #"{"a":"b"}"#
    let sealed = authority.sealed(text, .host, ["h"])
    #expect(none.sealed(text, .host, ["h"]) == text)
    #expect(authority.proof(of: sealed, .host, ["h"]) == .proven)
    #expect(authority.proof(of: sealed, .host, ["i"]) == .wrong)
    #expect(authority.proof(of: sealed, .breaker, ["h"]) == .wrong)
    #expect(authority.proof(of: text, .host, ["h"]) == .unsigned)
    #expect(authority.proof(of: sealed.replacing("b", with: "c"), .host, ["h"]) == .wrong)
    #expect(authority.proof(of: "", .host, ["h"]) == .unsigned)
    #expect(authority.proof(of: #""}"#, .host, ["h"]) == .unsigned)
    #expect(FleetAuthority.seal(of: sealed)?.hasPrefix(Self.keys[0].id) == true)
    #expect(FleetAuthority.seal(of: text) == nil)
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
