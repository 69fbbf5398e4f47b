import BreakerRelay
@_spi(Relay) import ProgramKit
@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

/// Users that announce a command to the relay of a host.
@Suite struct CommandGiverTests {
  private func command(
    _ action: FleetCommand.Action, to name: String = "pay", reason: String? = "disks"
  ) -> FleetCommand {
    FleetCommand(
      name: name, action: action, reason: reason, author: "x", host: "a", stamp: 1, age: .zero)
  }

  private let force = FleetCommand.Action.force(.forcedOpen, for: .seconds(60))

  @Test func `a command belongs to the user that has announced just that, once`() {
    let givers = CommandGivers()
    givers.note(FleetGiving(force, reason: "disks", to: ["pay", "mail"]), by: "ann")
    #expect(givers.user(of: command(force)) == "ann")
    #expect(givers.user(of: command(force, to: "mail")) == "ann")
    #expect(givers.user(of: command(force, to: "db")) == nil)
    #expect(givers.user(of: command(force, reason: "other")) == nil)
    #expect(givers.user(of: command(force, reason: nil)) == nil)
    #expect(givers.user(of: command(.force(.forcedOpen, for: nil))) == nil)
    #expect(givers.user(of: command(.reset)) == nil)
    givers.told(command(force))
    #expect(givers.user(of: command(force)) == nil)
    #expect(givers.user(of: command(force, to: "mail")) == "ann")
    givers.told(command(.reset))
    givers.told(command(force, to: "mail"))
    #expect(givers.user(of: command(force, to: "mail")) == nil)
  }

  @Test func `the same command given twice needs two announcements, and the first one counts`() {
    let givers = CommandGivers()
    for user in ["ann", "eve"] {
      givers.note(FleetGiving(.reset, reason: nil, to: ["pay", "pay"]), by: user)
    }
    let reset = command(.reset, reason: nil)
    for user in ["ann", "ann", "eve", "eve"] {
      #expect(givers.user(of: reset) == user)
      givers.told(reset)
    }
    #expect(givers.user(of: reset) == nil)
  }

  @Test func `a policy is announced in the order of its words, and a long reason as it is kept`() {
    let givers = CommandGivers()
    let values: [PolicyKey: String] = [.openFor: "60s", .probes: "2"]
    givers.note(
      FleetGiving(.policy(set: values, unset: [.jitter]), reason: nil, to: ["a"]), by: "x")
    let kept = command(.policy(set: values, unset: [.jitter]), to: "a", reason: nil)
    #expect(givers.user(of: kept) == "x")
    let long = String(repeating: "y", count: 2_000)
    givers.note(FleetGiving(.reset, reason: long, to: ["a"]), by: "x")
    #expect(givers.user(of: command(.reset, to: "a", reason: String(long.prefix(1_024)))) == "x")
    #expect(givers.user(of: command(.reset, to: "a", reason: "")) == nil)
  }

  @Test func `announcements take so much memory for each user, and for so many users`() {
    let givers = CommandGivers()
    let reset = command(.reset, reason: nil)
    let long = String(repeating: "x", count: CommandGivers.roomForUser / 4)
    for _ in 0..<4 { givers.note(FleetGiving(.reset, reason: long, to: ["db"]), by: "eve") }
    let many = (0..<20_000).map { "b\($0)" }
    for _ in 0..<100 { givers.note(FleetGiving(.reset, reason: nil, to: many), by: "eve") }
    givers.note(FleetGiving(.reset, reason: nil, to: ["pay"]), by: "eve")
    #expect(givers.user(of: command(.reset, to: "b7", reason: nil)) == "eve")
    #expect(givers.user(of: reset) == "eve")
    // Three long reasons and three lists of names leave no room for another long one.
    givers.note(FleetGiving(.reset, reason: long, to: ["mail"]), by: "eve")
    #expect(givers.user(of: command(.reset, to: "mail", reason: long)) == nil)
    // An announcement without a breaker takes no place, not even a user's.
    for user in 0..<100 {
      givers.note(FleetGiving(.reset, reason: nil, to: []), by: "nobody\(user)")
    }
    for user in 1..<CommandGivers.roomForUsers + 4 {
      givers.note(FleetGiving(.reset, reason: nil, to: ["u\(user)"]), by: "user\(user)")
    }
    let last = CommandGivers.roomForUsers - 1
    #expect(givers.user(of: command(.reset, to: "u\(last)", reason: nil)) == "user\(last)")
    #expect(givers.user(of: command(.reset, to: "u\(last + 1)", reason: nil)) == nil)
  }

  @Test func `a command is a user's only if it was given just after the announcement`() {
    let givers = CommandGivers()
    let start = ContinuousClock.now
    givers.note(FleetGiving(.reset, reason: nil, to: ["pay"]), by: "ann", at: start)
    func user(age: Duration, after passed: Duration) -> String? {
      var command = command(.reset, reason: nil)
      command.age = age
      return givers.user(of: command, at: start + passed)
    }
    #expect(user(age: .zero, after: .zero) == "ann")
    #expect(user(age: .zero, after: CommandGivers.longestPause) == "ann")
    // It may wait for the server for hours.
    #expect(user(age: .seconds(9_999), after: .seconds(10_000)) == "ann")
    // Another user has given it before, or after the program of this user has failed.
    #expect(user(age: .seconds(1), after: .zero) == nil)
    #expect(user(age: .zero, after: CommandGivers.longestPause + .seconds(1)) == nil)
    var other = command(.reset, reason: nil)
    other.age = .seconds(2)
    givers.told(other, at: start + .seconds(1))
    #expect(user(age: .zero, after: .seconds(1)) == "ann")
    // After a day it is forgotten.
    let late = start + CommandGivers.patience + .seconds(1)
    givers.note(FleetGiving(.reset, reason: nil, to: ["db"]), by: "eve", at: late)
    #expect(user(age: CommandGivers.patience, after: CommandGivers.patience + .seconds(1)) == nil)
  }

  @Test func `an announcement is one line that another version may not understand`() {
    let giving = FleetGiving(force, reason: "two\nlines", to: ["pay", "a\"b"])
    let words = RelayStatus.Question.giving(giving).words
    #expect(!words.contains("\n"))
    #expect(RelayStatus.Question(words: words) == .giving(giving))
    #expect(RelayStatus.Question(words: "giving {}") == nil)
    #expect(RelayStatus.Question(words: "giving nonsense") == nil)
  }
}

/// How the hosts of a fleet name the giver of a command.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct CommandGiverFleetTests {
  private static let key = FleetKey(hexadecimal: String(repeating: "11", count: 32))

  /// Announces a command as `cbctl` does; returns whom the relay has seen.
  private func announce(
    _ action: FleetCommand.Action, to name: String, by host: TestHost
  ) throws -> String {
    let giving = FleetGiving(action, reason: nil, to: [name])
    let answer = try StatusClient.ask(RelayStatus.Question.giving(giving).words, of: host)
    let parts = answer.split(separator: "\"")
    return try #require(parts.count > 5 ? String(parts[5]) : nil)
  }

  private func giver(of name: String, at host: TestHost) throws -> FleetGiver? {
    try host.store.history(of: name).last?.giver
  }

  @Test(.timeLimit(.minutes(60)), arguments: [false, true])
  func `other hosts name the user whom the giving host has verified, signed or not`(
    isSigned: Bool
  ) async throws {
    let fleet = try TestFleet()
    let keys = isSigned ? [Self.key].compactMap { $0 } : []
    let (a, b) = (
      try await fleet.host("a") { $0.keys = keys }, try await fleet.host("b") { $0.keys = keys }
    )
    let action = FleetCommand.Action.force(.observe, for: nil)
    let user = try announce(action, to: "pay", by: a)
    #expect(user == HostUser.current([:]).words)
    try a.breaker("pay").force(.observe, scope: .fleet)
    try await eventually("b observes") { try b.snapshot("pay")?.mode == .observe }
    let giver = try #require(try giver(of: "pay", at: b))
    #expect(giver.verifiedUser == user && giver.isProven == isSigned && giver.host == "a")
    #expect(try b.snapshot("pay")?.modeSetBy == giver.description)
    #expect(try b.store.history(of: "pay").last?.author.hasSuffix(" for \(giver)") == true)
    // The giving host knows it too, once its relay has told the command.
    try await eventually("a knows it") {
      try a.store.fleetCommands(to: "pay").first?.command.giver == giver
    }
    let document = try StatusClient.ask("confirmations pay", of: b)
    #expect(try FleetConfirmations(document: document).commands.map(\.giver) == [giver])
    // The giver of a second one that was not announced is only said.
    try a.breaker("pay").force(.forcedClosed, scope: .fleet)
    try await eventually("b is closed") { try b.snapshot("pay")?.mode == .forcedClosed }
    #expect(try self.giver(of: "pay", at: b)?.verifiedUser == nil)
    #expect(try b.snapshot("pay")?.modeSetBy?.hasSuffix(" on a (unverified)") == true)
  }

  @Test(.timeLimit(.minutes(60)), arguments: [false, true])
  func `a user that was written into the store is not told as verified`(
    isSigned: Bool
  ) async throws {
    let fleet = try TestFleet()
    let keys = isSigned ? [Self.key].compactMap { $0 } : []
    let a = try TestHost("a", as: "a", in: fleet.directory, address: fleet.server.address) {
      $0.keys = keys
    }
    try a.give { try $0.breaker("pay").force(.observe, scope: .fleet) }
    for table in ["fleet_outbox", "fleet_command"] {
      _ = try Database.rows(
        a.store.path, "UPDATE \(table) SET verified_user = 'root', is_proven = 1")
    }
    a.start()
    try await a.awaits(.connected)
    let b = try await fleet.host("b") { $0.keys = keys }
    try await eventually("b observes") { try b.snapshot("pay")?.mode == .observe }
    #expect(try giver(of: "pay", at: b)?.verifiedUser == nil)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a signed command keeps its giver when the server has lost it`() async throws {
    let fleet = try TestFleet()
    let keys = [Self.key].compactMap { $0 }
    let a = try await fleet.host("a") { $0.keys = keys }
    let user = try announce(.force(.observe, for: nil), to: "pay", by: a)
    try a.breaker("pay").force(.observe, scope: .fleet)
    try await eventually("a knows it") {
      try a.store.fleetCommands(to: "pay").first?.command.isProven == true
    }
    a.stop()
    try fleet.server.command("FLUSHALL")
    a.start()
    let b = try await fleet.host("b") { $0.keys = keys }
    try await eventually("b observes") { try b.snapshot("pay")?.mode == .observe }
    #expect(try giver(of: "pay", at: b)?.verifiedUser == user)
    #expect(try giver(of: "pay", at: b)?.isProven == true)
  }
}
