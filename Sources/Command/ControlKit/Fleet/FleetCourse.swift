import BreakerDocuments
import Glibc
@_spi(Relay) import ProgramKit
@_spi(Relay) import SharedBreaker

/// A command to a whole fleet, from before it is given until it is known what has become of it.
///
/// It says only what is known: what this host has done, whether the server has the command, and which
/// hosts have said that they have carried it out.
struct FleetCourse {
  private let standing: FleetStanding

  /// How long to wait for the hosts; nil to say only what is known at once.
  private let patience: Duration?

  /// The breakers that are followed, each with the highest stamp of a command before.
  ///
  /// A relay passes on the commands of its host in order, and hosts carry them out in order, so of
  /// very many the last one tells enough.
  private let stamps: [(name: String, before: Int64)]

  /// How many breakers are followed one by one.
  private static let mostNames = 32

  /// The latest that is known of each command, by breaker and aspect.
  private(set) var commands: [Known] = []

  /// The signal by which the user has ended the wait; nil if none has come.
  private var stopSignal: Int32?

  /// Why the relay does not say more.
  private(set) var problem: String?

  /// One command and what is known of it.
  struct Known {
    var name: String
    var aspect: String
    var stamp: Int64
    var isWaiting: Bool
    var refusal: String?

    /// The host whose later command applies instead.
    var winner: String?
    var hosts: [FleetConfirmations.Host] = []
  }

  /// Notes the latest stamps, before the command is given.
  init(
    _ standing: FleetStanding, to names: [String], atMost patience: Duration?,
    _ context: CommandContext
  ) throws(ControlError) {
    self.standing = standing
    self.patience = patience
    var stamps: [(name: String, before: Int64)] = []
    for name in names.count > Self.mostNames ? names.suffix(1) : names[...] {
      let known = try context.ask { store throws(StoreError) in
        try store.fleetCommands(to: name)
      }
      stamps.append((name, known.map(\.command.stamp).max() ?? 0))
    }
    self.stamps = stamps
  }
}

/// Following the command.
extension FleetCourse {
  /// Learns what has become of the command, for as long as the user waits for it.
  mutating func follow(_ context: CommandContext) throws(ControlError) {
    try lookHere(context)
    let end = ContinuousClock.now + (patience ?? context.console.publishPatience)
    let pause = StoppableSleep()
    while !isSettled, stopSignal == nil, ContinuousClock.now < end {
      if patience == nil || commands.contains(where: \.isWaiting) {
        // A relay without its server cannot tell anything soon.
        if patience == nil, !standing.isConnected { return }
        stopSignal = pause.sleep(.milliseconds(5))
      } else {
        try ask(context, until: end)
        if !isSettled {
          let left = end - ContinuousClock.now
          stopSignal = pause.sleep(min(.milliseconds(100), max(.milliseconds(1), left)))
        }
      }
      try lookHere(context)
    }
    // The last word, if the server has got the command only now.
    if patience != nil, !isSettled, stopSignal == nil {
      try ask(context, until: .now + context.console.relayPatience)
    }
  }

  /// Whether waiting longer would not tell more.
  private var isSettled: Bool {
    guard patience != nil else { return !commands.contains { $0.isWaiting && $0.refusal == nil } }
    return commands.allSatisfy { command in
      command.winner != nil
        || (!command.isWaiting && !command.hosts.isEmpty
          && command.hosts.allSatisfy { [.confirmed, .refused].contains($0.standing) })
    }
  }

  /// Looks at what this host knows.
  private mutating func lookHere(_ context: CommandContext) throws(ControlError) {
    var found: [Known] = []
    for (name, before) in stamps {
      let known = try context.ask { store throws(StoreError) in
        try store.fleetCommands(to: name)
      }
      for one in known where one.command.stamp > before {
        let isOwn = one.command.host == standing.host
        let earlier = commands.first { $0.name == name && $0.aspect == one.aspect }
        found.append(
          Known(
            name: name, aspect: one.aspect, stamp: one.command.stamp, isWaiting: one.isWaiting,
            refusal: one.refusal, winner: isOwn ? earlier?.winner : one.command.host,
            hosts: earlier?.hosts ?? []))
      }
    }
    commands = found
  }

  /// Asks the relay who has carried it out.
  private mutating func ask(
    _ context: CommandContext, until end: ContinuousClock.Instant
  ) throws(ControlError) {
    for name in Set(commands.map(\.name)) {
      let client = RelayClient(
        store: context.store.path,
        patience: min(context.console.relayPatience, max(.milliseconds(50), end - .now)))
      do throws(RelaySilence) {
        let answer = try client.confirmations(of: name)
        problem = answer.problem
        for index in commands.indices where commands[index].name == name {
          let told = answer.commands.first {
            $0.aspect == commands[index].aspect && $0.stamp == commands[index].stamp
          }
          guard let told else { continue }
          commands[index].winner = commands[index].winner ?? told.winner
          if told.isTold { commands[index].hosts = told.hosts }
        }
      } catch {
        problem = "the relay of this host gives no answer (\(error.why))"
      }
    }
  }
}

/// The outcome.
extension FleetCourse {
  /// The standings of each host, of which the one that is furthest from a confirmation counts.
  var hosts: [FleetConfirmations.Host] {
    let order: [FleetConfirmations.Standing] = [.refused, .silent, .pending, .confirmed]
    var worst: [String: FleetConfirmations.Host] = [:]
    for host in commands.flatMap(\.hosts) {
      guard let known = worst[host.name] else {
        worst[host.name] = host
        continue
      }
      let places = [host, known].map { order.firstIndex(of: $0.standing) ?? 0 }
      if places[0] < places[1] { worst[host.name] = host }
    }
    return worst.values.sorted { $0.name < $1.name }
  }

  /// Whether every host has carried out every command.
  private var isConfirmed: Bool {
    !commands.isEmpty
      && commands.allSatisfy { command in
        command.winner == nil && !command.isWaiting && !command.hosts.isEmpty
          && command.hosts.allSatisfy { $0.standing == .confirmed }
      }
  }

  /// How the command ends: as the signal says that has ended the wait, or with a code of its own if the user has
  /// waited, and not every host has confirmed it.
  var ending: Ending {
    if let stopSignal { return .signal(stopSignal) }
    return patience == nil || isConfirmed ? .done : .exit(.unconfirmed)
  }

  private var fleet: String { VisibleText.name(standing.fleet) }

  /// The end of a line about a changed breaker.
  var words: String {
    if let winner = commands.compactMap(\.winner).first {
      return "; overruled by a later command from \(VisibleText.name(winner)) of fleet \(fleet)"
    }
    if commands.contains(where: { $0.refusal != nil }) {
      return "; on this host only, because it cannot go out to fleet \(fleet)"
    }
    if commands.contains(where: \.isWaiting) {
      let way = standing.isConnected ? "and on its way to" : "and later on"
      return "; on this host, \(way) the others of fleet \(fleet)"
    }
    // An operator has withdrawn it meanwhile, or has taken this host out of the fleet.
    if commands.isEmpty { return "; on this host; fleet \(fleet) may not have it" }
    guard patience != nil, !hosts.isEmpty else { return "; published to fleet \(fleet)" }
    return "; \(Self.words(of: hosts)) of fleet \(fleet)"
  }

  /// How many hosts have confirmed a command, as in `confirmed by 4 of 5 hosts`.
  static func words(of hosts: [FleetConfirmations.Host]) -> String {
    let count = hosts.count { $0.standing == .confirmed }
    if count == hosts.count {
      return "confirmed by \(count == 1 ? "the only host" : "all \(count) hosts")"
    }
    return "confirmed by \(count) of \(hosts.count) hosts"
  }

  /// One line for each kind of host that has not confirmed it.
  static func missing(of hosts: [FleetConfirmations.Host]) -> [String] {
    let kinds: [(FleetConfirmations.Standing, String)] = [
      (.refused, "refused"), (.pending, "not confirmed yet"), (.silent, "silent"),
    ]
    return kinds.compactMap { kind, word in
      let those = hosts.filter { $0.standing == kind }
      if those.isEmpty { return nil }
      let names = those.prefix(8).map { host in
        let why = host.why.map { " (\(VisibleText.bare($0)))" } ?? ""
        let time =
          kind == .silent ? " (for \(SpokenDuration.format(host.silence)))" : ""
        return VisibleText.name(host.name) + why + time
      }
      let more = those.count > 8 ? " and \(those.count - 8) more" : ""
      return "\(word): \(names.joined(separator: ", "))\(more)"
    }
  }

  /// Further messages to the user.
  var notes: [String] {
    var notes: [String] = []
    if let refused = commands.first(where: { $0.refusal != nil }), let why = refused.refusal {
      notes.append(
        "the command to \(VisibleText.name(refused.name)) cannot go out (\(VisibleText.bare(why))):"
          + " it waits until it can: 'cbctl fleet withdraw \(VisibleText.name(refused.name))' takes it"
          + " back")
    } else if !standing.isConnected, commands.contains(where: \.isWaiting) {
      let problem = standing.problem.map { " (\(VisibleText.bare($0)))" } ?? ""
      notes.append(
        "the relay of this host cannot reach the fleet\(problem): it tells the other hosts as soon"
          + " as it can")
    }
    guard patience != nil else { return notes }
    notes += Self.missing(of: hosts)
    if stopSignal != nil, let command = commands.first {
      notes.append(
        "stopped waiting, which takes nothing back: 'cbctl fleet status"
          + " \(VisibleText.name(command.name))' says who has carried it out")
    }
    if let problem, hosts.isEmpty { notes.append(VisibleText.bare(problem)) }
    return notes
  }

  /// The outcome as a member of a document.
  var document: JSONValue.Member {
    let list = hosts.map(\.document)
    let winner = commands.compactMap(\.winner).first
    let refusal = commands.compactMap(\.refusal).first
    return .init(
      "fleet",
      .object([
        .init("fleet", .string(standing.fleet)),
        .init("published", .bool(!commands.isEmpty && !commands.contains(where: \.isWaiting))),
        .init("refusal", JSONValue(refusal)), .init("overtaken_by", JSONValue(winner)),
        .init("waited", .bool(patience != nil)), .init("confirmed", .bool(isConfirmed)),
        .init("hosts", .array(list)),
      ]))
  }
}
