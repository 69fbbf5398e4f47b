import BreakerRelay
@_spi(Relay) import SharedBreaker
import Testing

/// Messages in the stream.
struct FleetMessageTests {
  private static let opened = [
    "v": "1", "n": "7", "k": "open", "h": "b", "l": "00ff", "b": "db", "g": "4", "r": "1500",
  ]
  private static let commanded = [
    "v": "1", "n": "7", "k": "command", "h": "b", "l": "00ff", "b": "db", "s": "12",
    "c": #"{"action":"force","mode":"observe","for_ms":60000,"by":"cbctl (pid 3)","age_ms":5}"#,
  ]

  private static func reply(_ fields: [String: String]) -> RedisReply {
    .array(fields.flatMap { [.bytes(Array($0.key.utf8)), .bytes(Array($0.value.utf8))] })
  }

  @Test func `a message about a breaker is read`() throws {
    let message = try FleetMessage(Self.reply(Self.opened), receivedAt: 1_000, at: 1_300)
    #expect(
      message
        == FleetMessage(
          .open(for: .milliseconds(1_200)), name: "db", host: "b", lineage: "00ff", generation: 4))
    for (kind, content) in [("recovered", FleetMessage.Content.recovered), ("closed", .closed)] {
      var fields = Self.opened
      fields["k"] = kind
      fields["r"] = nil
      #expect(try FleetMessage(Self.reply(fields), receivedAt: 1_000, at: 1_000).content == content)
    }
  }

  private static let held = [
    "v": "1", "n": "7", "k": "hold", "h": "b", "l": "00ff", "b": "llm", "g": "4", "r": "1500",
    "a": "20", "e": "12", "w": "HTTP 429",
  ]

  @Test func `a hold is read, and grows older on the way`() throws {
    let message = try FleetMessage(Self.reply(Self.held), receivedAt: 1_000, at: 1_300)
    let hold = FleetHold(
      left: .milliseconds(1_200), age: .milliseconds(320), after: 12, reason: "HTTP 429")
    #expect(
      message
        == FleetMessage(.hold(hold), name: "llm", host: "b", lineage: "00ff", generation: 4))
    var fields = Self.held
    fields["w"] = ""
    let bare = try FleetMessage(Self.reply(fields), receivedAt: 1_000, at: 1_000).content
    #expect(
      bare == .hold(FleetHold(left: .milliseconds(1_500), age: .milliseconds(20), after: 12)))
  }

  @Test(
    arguments: [
      ("r", "31536000001"), ("r", "-1"), ("r", nil), ("a", "31536000001"), ("a", nil), ("e", "-1"),
      ("e", "9007199254740993"), ("e", nil), ("w", nil),
    ] as [(String, String?)])
  func `a hold of more than a year, or without a part, is refused`(
    field: String, value: String?
  ) {
    var fields = Self.held
    fields[field] = value
    let refusal = #expect(throws: Refusal.self) {
      try FleetMessage(Self.reply(fields), receivedAt: 1_000, at: 1_000)
    }
    #expect(refusal?.kind == (value == nil ? .unreadable : .value))
  }

  @Test func `a command is read, and its age grows on the way`() throws {
    let message = try FleetMessage(Self.reply(Self.commanded), receivedAt: 1_000, at: 1_300)
    guard case .command(let command) = message.content else {
      Issue.record("it is no command")
      return
    }
    #expect(
      command
        == FleetCommand(
          name: "db", action: .force(.observe, for: .seconds(60)), author: "cbctl (pid 3)",
          host: "b", stamp: 12, age: .milliseconds(305)))
  }

  private static let forged: [(Refusal.Kind, String, String?)] = [
    (.otherVersion, "v", "2"), (.otherVersion, "v", nil), (.otherVersion, "v", ""),
    (.unreadable, "k", nil), (.unreadable, "h", nil), (.unreadable, "l", nil),
    (.unreadable, "b", nil), (.unreadable, "g", nil), (.unreadable, "r", nil),
    (.value, "k", "exploded"), (.name, "h", ""), (.name, "h", "b\n"), (.name, "h", "b c"),
    (.name, "h", String(repeating: "h", count: 65)), (.value, "l", "xyz"), (.value, "l", ""),
    (.value, "l", String(repeating: "a", count: 65)), (.name, "b", ""), (.name, "b", "\u{1b}[2J"),
    (.name, "b", "a\nb"), (.name, "b", String(repeating: "b", count: 256)), (.value, "g", "-1"),
    (.value, "g", "9223372036854775808"), (.value, "g", "4.0"), (.value, "r", "-1"),
    (.value, "r", "31536000001"), (.value, "r", ""),
    (.oversized, "x", String(repeating: "x", count: 65_536)),
  ]

  @Test(arguments: forged)
  func `a message that breaks the protocol is refused`(
    kind: Refusal.Kind, field: String, value: String?
  ) {
    var fields = Self.opened
    fields[field] = value
    let refusal = #expect(throws: Refusal.self) {
      try FleetMessage(Self.reply(fields), receivedAt: 1_000, at: 1_000)
    }
    #expect(refusal?.kind == kind)
    #expect(refusal?.host == (field == "h" || kind == .oversized ? nil : "b"))
    #expect(refusal.map { $0.description.utf8.count < 400 } == true)
    #expect(refusal?.description.unicodeScalars.contains("\u{1b}") == false)
  }

  @Test(arguments: [
    RedisReply.nothing, .array([]), .integer(1), .array([.bytes([0x76])]),
    .array([.bytes([0xFF]), .bytes([0x31])]), .array([.integer(1), .nothing]),
  ])
  func `an answer that is not a message is refused`(reply: RedisReply) {
    #expect(throws: Refusal.self) { try FleetMessage(reply, receivedAt: 1_000, at: 1_000) }
  }

  @Test(arguments: [
    "", "[]", "{}", "nonsense", #"{"action":"reset"}"#, #"{"by":"x"}"#,
    #"{"action":"explode","by":"x"}"#, #"{"action":"force","by":"x"}"#,
    #"{"action":"force","mode":"ajar","by":"x"}"#, #"{"action":"trip","for_ms":0,"by":"x"}"#,
    #"{"action":"trip","for_ms":-1,"by":"x"}"#, #"{"action":"trip","for_ms":31536000001,"by":"x"}"#,
    #"{"action":"trip","for_ms":"1","by":"x"}"#, #"{"action":"trip","for_ms":1e3,"by":"x"}"#,
    #"{"action":"reset","by":"x","age_ms":-1}"#, #"{"action":"policy","set":"probes","by":"x"}"#,
    #"{"action":"policy","set":"colour=red","by":"x"}"#,
    #"{"action":"policy","unset":"colour","by":"x"}"#,
  ])
  func `a command that this version does not know is refused`(text: String) {
    var fields = Self.commanded
    fields["c"] = text
    let refusal = #expect(throws: Refusal.self) {
      try FleetMessage(Self.reply(fields), receivedAt: 1_000, at: 1_000)
    }
    #expect(refusal?.kind == .command)
    #expect(refusal?.host == "b")
  }

  @Test(arguments: ["0", "-1", "9007199254740993", "1.0", "99999999999999"])
  func `a stamp that is out of range or from the day after tomorrow is refused`(stamp: String) {
    var fields = Self.commanded
    fields["s"] = stamp
    #expect(throws: Refusal.self) {
      try FleetMessage(Self.reply(fields), receivedAt: 1_000, at: 1_000)
    }
  }
}

/// Commands as hosts exchange them.
struct CommandTextTests {
  @Test(arguments: [
    FleetCommand.Action.trip(for: nil), .trip(for: .seconds(60)), .reset, .endHold,
    .force(.automatic, for: nil), .force(.forcedClosed, for: .milliseconds(1)),
    .policy(set: [.openFor: "5m", .failureRate: "12.5%"], unset: [.within, .failures]),
    .policy(set: [:], unset: [.probes]),
  ])
  func `a command is read as it was written`(action: FleetCommand.Action) throws {
    for reason in [nil, "", "line\nbreak \"quoted\" \u{202E} 🦊"] {
      let command = FleetCommand(
        name: "db", action: action, reason: reason, author: "cbctl (pid 3)", host: "a",
        stamp: 5, age: .milliseconds(1_234))
      let text = CommandText.text(of: command)
      #expect(try CommandText.command(text, name: "db", host: "a", stamp: 5) == command)
    }
  }
}
