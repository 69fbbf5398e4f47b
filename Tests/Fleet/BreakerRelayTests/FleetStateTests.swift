import BreakerRelay
@_spi(Relay) import SharedBreaker
import Testing

/// The state on the server, and a host's conclusions from it after a disconnection.
struct FleetStateTests {
  private static func bytes(_ text: String) -> RedisReply { .bytes(Array(text.utf8)) }

  private static func state(
    commands: [String: String] = [:], evidence: [String: String] = [:], seconds: Int = 1_000,
    knowing own: [FleetCommand] = []
  ) throws -> FleetState {
    func pairs(_ fields: [String: String]) -> [(field: RedisReply, value: RedisReply)] {
      fields.map { (bytes($0.key), bytes($0.value)) }
    }
    var state = try FleetState(
      [
        .array([bytes(String(seconds)), bytes("5000")]), bytes("abc"), bytes("17"),
        .array([.array([bytes("999000-0"), .array([])])]),
      ], knowing: own)
    state.take(commands: pairs(commands))
    state.take(evidence: pairs(evidence))
    return state
  }

  private func command(
    _ action: FleetCommand.Action, from host: String, stamp: Int64
  ) -> FleetCommand {
    FleetCommand(
      name: "db", action: action, author: "x", host: host, stamp: stamp, age: .zero)
  }

  private func value(_ command: FleetCommand, given: Int64 = 900_000) -> String {
    "\(command.stamp) \(command.host) \(given) " + CommandText.text(of: command)
  }

  @Test func `the state is read`() throws {
    let reset = command(.reset, from: "b", stamp: 3)
    let state = try Self.state(
      commands: ["db\nstate": value(reset)],
      evidence: ["db\nb": "00ff 4 1000500", "db\nz": "00ff 4 900000"])
    #expect(state.now == 1_000_005)
    #expect(state.epoch == "abc")
    #expect(state.number == 17)
    #expect(state.entry == "999000-0")
    #expect(state.refusals.isEmpty)
    #expect(
      state.evidence.first?.2
        == FleetView.Evidence(lineage: "00ff", generation: 4, until: 1_000_500))
    // A host that has been away for long does not count, and the server may forget it.
    #expect(state.evidence.count == 1)
    #expect(state.pastEvidence == [Self.bytes("db\nz"), Self.bytes("00ff 4 900000")])
    let unheard = state.unheard
    #expect(unheard.map(\.stamp) == [3])
    #expect(unheard.first?.age == .milliseconds(100_005))
  }

  @Test func `an empty server has an empty state`() throws {
    let state = try FleetState([
      .array([Self.bytes("1000"), Self.bytes("5000")]), .nothing, .nothing, .array([]),
    ])
    #expect(state.number == 0)
    #expect(state.entry == "0-0")
  }

  @Test func `the later of two commands about the same aspect is exchanged`() throws {
    let kept = command(.reset, from: "b", stamp: 3)
    for (stamp, host, isUnheard, isLost) in [
      (2, "z", true, false), (3, "a", true, false), (3, "b", false, false), (3, "c", false, true),
      (4, "a", false, true),
    ] {
      let own = [command(.trip(for: nil), from: host, stamp: Int64(stamp))]
      let state = try Self.state(commands: ["db\nstate": value(kept)], knowing: own)
      #expect(state.unheard.isEmpty != isUnheard)
      #expect(state.lost(from: "q").isEmpty != isLost)
    }
  }

  @Test func `a trip or reset that is too old is not heard again`() throws {
    let month: Int64 = 30 * 86_400_000
    let day: Int64 = 86_400_000
    for (action, age, isUnheard) in [
      (FleetCommand.Action.reset, month - day, true), (.reset, month + day, false),
      (.trip(for: nil), month + day, false), (.trip(for: .seconds(60 * 86_400)), month + day, true),
      (.force(.observe, for: nil), month + day, true),
    ] {
      let kept = command(action, from: "b", stamp: 3)
      let aspect = try #require(kept.byAspect.keys.first)
      let state = try Self.state(
        commands: ["db\n\(aspect)": value(kept, given: 9_000_000_000 - age)], seconds: 9_000_000)
      #expect(state.unheard.isEmpty != isUnheard, "\(action) \(age)")
      // It still shows that an earlier one of this host is overtaken.
      let earlier = try Self.state(
        commands: ["db\n\(aspect)": value(kept, given: 9_000_000_000 - age)], seconds: 9_000_000,
        knowing: [command(.reset, from: "a", stamp: 2)])
      #expect(earlier.lost(from: "a").isEmpty == (aspect == "state"))
      #expect(state.refusals.isEmpty)
    }
  }

  @Test func `commands about different things do not overtake each other`() throws {
    let kept = command(.policy(set: [.probes: "3"], unset: []), from: "b", stamp: 9)
    let own = [
      command(.policy(set: [.openFor: "1m"], unset: []), from: "a", stamp: 2),
      command(.force(.observe, for: nil), from: "a", stamp: 1),
    ]
    let state = try Self.state(commands: ["db\npolicy:probes": value(kept)], knowing: own)
    #expect(state.unheard.map(\.stamp) == [9])
    #expect(state.lost(from: "a").map(\.stamp) == [1, 2])
  }

  @Test(arguments: [
    ("db", "1 b 5 {}"), ("db\nstate", "1 b 5"), ("db\nstate", "x b 5 {}"),
    ("db\nstate", #"1 b -9223372036854775808 {"action":"reset","by":"x"}"#),
    ("db\nstate", #"1 b 9223372036854775807 {"action":"reset","by":"x"}"#),
    ("db\nstate", #"99999999999999 b 5 {"action":"reset","by":"x"}"#), ("db\nstate", "0 b 5 {}"),
    ("db\nstate", "9007199254740993 b 5 {}"),
    ("db\nstate", "1 b 5 {}"), ("db\nstate", "1 b x {}"), ("db\nstate", "1 b\u{1b} 5 {}"),
    ("\u{1b}\nstate", #"1 b 5 {"action":"reset","by":"x"}"#),
    ("db\nmode", #"1 b 5 {"action":"reset","by":"x"}"#),
    ("db\nstate\nx", #"1 b 5 {"action":"reset","by":"x"}"#),
  ])
  func `an impossible command on the server is refused`(
    field: String, value: String
  ) throws {
    let state = try Self.state(commands: [field: value])
    #expect(state.unheard.isEmpty)
    #expect(state.refusals.count == 1)
  }

  @Test(arguments: [
    ("db", "1 2 3"), ("db\nb", "1 2"), ("db\nb", "1 x 3"), ("db\nb c", "1 2 3"), ("\nb", "1 2 3"),
    ("db\nb", "1 2 -9223372036854775808"), ("db\nb", "1 2 9223372036854775807"),
    ("db\nb", "x 2 3"), ("db\nb", "1 -2 3"),
  ])
  func `impossible evidence on the server is refused`(
    field: String, value: String
  ) throws {
    let state = try Self.state(evidence: [field: value])
    #expect(state.evidence.isEmpty)
    #expect(state.refusals.count == 1)
  }

  @Test func `a hold is read with how long it lasts and how old it is by now`() throws {
    // It was told 60 s ago, when the resource had asked for it 5 s before.
    let state = try Self.state(evidence: [
      "llm\nb\nhold": "00ff 4 1540005\n600000 5000 17\nquota\nused up",
      "llm\nc\nhold": "00ff 4 1540005\n600000 5000 0\n",
      "llm\nz\nhold": "00ff 4 900000\n600000 5000 17\n",
    ])
    #expect(state.refusals.isEmpty && state.evidence.isEmpty && state.pastEvidence.count == 2)
    let holds = Dictionary(uniqueKeysWithValues: state.holds.map { ($0.host, $0.2) })
    #expect(
      holds["b"]
        == FleetHold(
          left: .seconds(540), age: .seconds(65), after: 17, reason: "quota\nused up"))
    #expect(holds["c"] == FleetHold(left: .seconds(540), age: .seconds(65)))
    #expect(state.holds.count == 2)
  }

  @Test(arguments: [
    ("llm\nb\nhold", "1 2 1540005"), ("llm\nb\nhold", "1 2 1540005\n1 2 3"),
    ("llm\nb\nhold", "1 2 1540005\n1 2\n"), ("llm\nb\nhold", "1 2 1540005\n1 -2 3\n"),
    ("llm\nb\nheld", "1 2 1540005\n1 2 3\n"), ("llm\nb\nhold\nx", "1 2 1540005\n1 2 3\n"),
    ("llm\nb\nhold", "1 2 1540005\n31536000001 2 3\n"), ("llm\nb", "1 2 1540005\n1 2 3\n"),
    ("llm\nb\nhold", "1 2 1540005\n1 2 9007199254740993\n"),
  ])
  func `an impossible hold on the server is refused`(field: String, value: String) throws {
    let state = try Self.state(evidence: [field: value])
    #expect(state.evidence.isEmpty && state.holds.isEmpty)
    #expect(state.refusals.count == 1)
  }

  @Test func `endless evidence is refused`() throws {
    var fields: [String: String] = [:]
    for number in 0...FleetView.room { fields["lie.\(number)\nz"] = "1 1 2000000" }
    let state = try Self.state(evidence: fields)
    #expect(state.evidence.count == FleetView.room)
    #expect(state.refusals.map(\.kind) == [.room])
  }

  @Test func `an answer that makes no sense is an error`() {
    #expect(throws: RedisError.self) { try FleetState([]) }
    #expect(throws: RedisError.self) {
      try FleetState([.error("OOM x"), .nothing, .nothing, .nothing])
    }
  }
}
