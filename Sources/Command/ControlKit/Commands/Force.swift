import BreakerDocuments
@_spi(Relay) import SharedBreaker

extension CommandSpec {
  private static let modes: [BreakerMode] = [.forcedOpen, .forcedClosed, .observe, .automatic]

  static let force = CommandSpec(
    name: "force",
    summary: "set or remove a mode that overrides the state",
    arguments: [
      .changed(
        "the breaker, or a pattern with * or ?; a breaker is created if it does not exist, but "
          + "not by automatic"),
      ArgumentSpec(
        label: "MODE", kind: .choice(modes.map(\.wireName)),
        summary: "forced_open, forced_closed, observe or automatic"),
    ],
    options: [
      OptionSpec(name: "for", kind: .duration, summary: "remove the mode after D"),
      .until("remove the mode at T, such as 18:00 or an RFC 3339 time"),
      .reason, .fleet, .wait,
    ],
    details: [
      "forced_open rejects every call. forced_closed permits every call. observe also permits every "
        + "call, and records what the breaker would have done. automatic removes the mode, so that "
        + "the state decides again.",
      "The first three create the breaker and the store if they do not exist, so that you can stop "
        + "calls to a service before the first one. automatic creates nothing.",
      timeOfDay,
    ],
    examples: [
      Example(
        "cbctl force payments forced_open --for 2h --reason maintenance",
        "reject every call for two hours"),
      Example("cbctl force 'payments-*' automatic", "remove the mode of all that match"),
      Example("cbctl force payments forced_open --for 2h --fleet", "reject calls on every host"),
    ],
    exitCodes: [.done, .usage, .noBreaker, .unconfirmed, .storeUnavailable],
    actsForUser: true
  ) { context, parsed throws(ControlError) in
    let mode = parsed.text("MODE").flatMap { BreakerMode(wireName: $0) } ?? .automatic
    for option in ["for", "until"] where mode == .automatic && parsed.has(option) {
      throw .usage("--\(option) with automatic", "automatic has no end", help: "force")
    }
    let length = try context.lengthOfChange(parsed, help: "force")
    if length == .zero {
      throw .usage("--for 0", "the mode would be over at once: use automatic", help: "force")
    }
    let fleet = try context.fleet(of: parsed)
    return try context.change(
      creating: mode != .automatic, for: fleet, .force(mode, for: length),
      parsed
    ) {
      breaker throws(BreakerError) in
      try breaker.force(
        mode, for: length, reason: parsed.text("reason"), scope: fleet.scope)
      return nil
    }
  }
}

extension CommandSpec {
  /// The meaning of a time of day, for the commands with `--until`.
  static let timeOfDay = "A time of day is the next one of the local clock."
}

extension CommandContext {
  /// How long a change lasts, by `--for` or `--until`; nil if neither was given.
  func lengthOfChange(
    _ parsed: ParsedCommand, help: String
  ) throws(ControlError) -> Duration? {
    guard let text = parsed.text("until") else { return parsed.duration("for") }
    guard !parsed.has("for") else {
      throw .usage("--for and --until", "a change has one end", help: help)
    }
    let now = now()
    guard let time = TimeText.instant(text, now: now), time > now else {
      throw .usage("--until \(VisibleText.quoted(text))", "that time has passed", help: help)
    }
    return .milliseconds(time.millisecondsSince1970 - now.millisecondsSince1970)
  }

  /// Changes one breaker, or all that match a pattern, and prints their states.
  ///
  /// A command that stops calls creates the breaker, because that may be before the first call.
  func change(
    creating: Bool, for fleet: FleetStanding?, _ action: FleetCommand.Action?,
    _ parsed: ParsedCommand, telling report: ChangeReport = ChangeReport(),
    _ body: (Breaker) throws(BreakerError) -> String?
  ) throws(ControlError) -> Ending {
    let chosen = try chosen(parsed.patterns)
    let (names, isMaking) = (chosen.names, creating && !chosen.areMatches)
    var breakers: [Breaker] = []
    for name in names {
      breakers.append(isMaking ? try madeBreaker(name) : try existingBreaker(name, for: fleet))
    }
    var course: FleetCourse?
    if let action { course = try self.course(of: fleet, giving: action, to: names, parsed) }
    for (index, breaker) in breakers.enumerated() {
      let note = isMaking ? try noteOnFirstUse(of: breaker.name) : nil
      var remark: String?
      do throws(ControlError) {
        try act { () throws(BreakerError) in remark = try body(breaker) }
      } catch {
        if index > 0 { self.note("\(index) of \(names.count) breakers were changed") }
        throw error
      }
      if let note { self.note(note) }
      if let remark { self.note("\(VisibleText.name(breaker.name)): \(remark)") }
    }
    return try printState(of: names, after: course, telling: report)
  }

  /// The message about a name that no breaker has yet, which may be a typo.
  func noteOnFirstUse(of name: String) throws(ControlError) -> String? {
    let found = try ask { store throws(StoreError) in try store.snapshot(of: name) }
    if found != nil { return nil }
    let words = "\(VisibleText.name(name)): created, because no breaker had that name"
    guard let meant = Suggestion.nearest(to: name, among: try names()) else { return words }
    return "\(words): did you mean \(VisibleText.quoted(meant))?"
  }
}

extension CommandSpec {
  static let trip = CommandSpec(
    name: "trip",
    summary: "open a breaker now",
    arguments: [
      .changed(
        "the breaker, or a pattern with * or ?; a breaker is created if it does not exist")
    ],
    options: [
      OptionSpec(
        name: "for", kind: .duration, summary: "stay open for D instead of the policy's open-for"),
      .until("stay open until T, such as 18:00 or an RFC 3339 time"),
      .reason, .fleet, .wait,
    ],
    details: [
      "Probes close the breaker again, as after any trip. To reject calls until you say otherwise, "
        + "use 'cbctl force NAME forced_open'.",
      "Like force, it creates the breaker and the store if they do not exist, and says so: the name may "
        + "be a typo.",
      timeOfDay,
    ],
    examples: [
      Example(
        "cbctl trip payments --for 10m --reason 'vendor is down'", "stop calls for ten minutes")
    ],
    exitCodes: [.done, .usage, .noBreaker, .unconfirmed, .storeUnavailable],
    actsForUser: true
  ) { context, parsed throws(ControlError) in
    let fleet = try context.fleet(of: parsed)
    let length = try context.lengthOfChange(parsed, help: "trip")
    let action = FleetCommand.Action.trip(for: length)
    return try context.change(creating: true, for: fleet, action, parsed) {
      breaker throws(BreakerError) in
      try breaker.trip(
        for: length, reason: parsed.text("reason"), scope: fleet.scope)
      return nil
    }
  }
}

extension CommandSpec {
  static let reset = CommandSpec(
    name: "reset",
    summary: "close breakers and clear their counters",
    arguments: [.changed("the breakers, or patterns with * or ?", .any)],
    options: [
      OptionSpec(name: "all", summary: "reset every breaker of the store"),
      .reason, .fleet, .wait, .yes,
    ],
    details: [
      "Every process notices the reset at its next call. A reset keeps the history and the mode.",
      "If one of the breakers does not exist, none is reset. --all asks for confirmation, as a pattern "
        + "does; in a script, add --yes.",
      "--all --fleet resets the breakers that this store has, on every host.",
    ],
    examples: [Example("cbctl reset payments", "close it when the resource is known to be back")],
    exitCodes: [.done, .failed, .usage, .noBreaker, .unconfirmed, .storeUnavailable],
    meanings: [.failed: "you did not confirm it"],
    actsForUser: true
  ) { context, parsed throws(ControlError) in
    let fleet = try context.fleet(of: parsed)
    let chosen = try context.chosen(parsed)
    let names = chosen.names
    // All names of the store are those of breakers.
    if !parsed.has("all") {
      for name in names { _ = try context.existingBreaker(name, for: fleet) }
    }
    if chosen.areMatches, !names.isEmpty {
      let hosts = fleet.map { " on every host of fleet \(VisibleText.name($0.fleet))" } ?? ""
      try context.confirm("reset \(CountedNoun.text(names.count, "breaker"))\(hosts)?", parsed)
    }
    let course = try context.course(of: fleet, giving: .reset, to: names, parsed)
    try context.act { () throws(BreakerError) in
      try context.store.reset(names, reason: parsed.text("reason"), scope: fleet.scope)
    }
    return try context.printState(of: names, after: course)
  }
}

/// Changing breakers.
extension CommandContext {
  /// A breaker that must exist; a change to it fails if the store fails.
  func existingBreaker(
    _ name: String, for fleet: FleetStanding? = nil
  ) throws(ControlError) -> Breaker {
    try connectToExisting()
    let found = try act { () throws(BreakerError) in try store.existingBreaker(name) }
    if let found { return found }
    guard fleet != nil else { throw .noBreaker(name, among: try names()) }
    throw .noBreaker(
      name, among: try names(),
      remedy: "this host has none of that name: run the command on a host that has it, which "
        + "'cbctl fleet status --all' shows")
  }

  /// Returns the breaker with a name, which its first change creates, and creates the store now.
  func madeBreaker(_ name: String) throws(ControlError) -> Breaker {
    try act { () throws(BreakerError) in try Breaker.validate(name: name) }
    try ask { store throws(StoreError) in try store.connect() }
    return try act { () throws(BreakerError) in
      try store.breaker(name, onStoreFailure: .throw)
    }
  }

  /// Prints the states of breakers after a change, and what has become of it in the fleet.
  func printState(
    of names: [String], after course: FleetCourse?, telling report: ChangeReport = ChangeReport()
  ) throws(ControlError) -> Ending {
    var course = course
    try course?.follow(self)
    var snapshots: [BreakerSnapshot] = []
    for name in names {
      let found = try ask { store throws(StoreError) in try store.snapshot(of: name) }
      // Another process may have deleted the breaker since.
      if let found { snapshots.append(found) }
    }
    if global.isJSON {
      let breakers = snapshots.map { JSONValue.object(report.members($0)) }
      print(BreakerDocument.list(of: breakers, course.map { [$0.document] } ?? []))
    } else if !global.isQuiet {
      let end = (course?.words ?? "") + "\n"
      print(snapshots.map { report.line($0) + end }.joined())
    }
    for line in course?.notes ?? [] { note(line) }
    return course?.ending ?? .done
  }
}

/// How a command tells of each breaker that it has changed.
struct ChangeReport {
  var line: (BreakerSnapshot) -> String = { StateLine.text(of: $0) }
  var members: (BreakerSnapshot) -> [JSONValue.Member] = { BreakerDocument.members(of: $0) }
}

/// Commands to a whole fleet.
extension CommandContext {
  /// The fleet that a command is for; nil without `--fleet`.
  ///
  /// A command calls this before it changes anything.
  ///
  /// - Throws: If no relay runs on this host, because nothing would tell the other hosts.
  func fleet(of parsed: ParsedCommand) throws(ControlError) -> FleetStanding? {
    guard parsed.has("fleet") else {
      if parsed.has("wait") {
        throw .usage("--wait without --fleet", "only other hosts confirm", help: parsed.spec.name)
      }
      return nil
    }
    var standing: FleetStanding?
    do throws(StoreError) {
      try store.connectToExisting()
      standing = try store.fleetStanding()
    } catch {
      // Without a store there is no relay either, and the relay has to be started first.
      if error.kind != .missing { throw ControlError(error) }
    }
    if let standing, standing.isRelayRunning { return standing }
    throw ControlError(
      .storeUnavailable, "nothing was changed", "cbrelay does not run on this host",
      "start it, or leave out --fleet to act on this host alone")
  }

  /// Begins to follow a command to a fleet, before it is given, and announces it to the relay; nil
  /// without `--fleet`.
  func course(
    of fleet: FleetStanding?, giving action: FleetCommand.Action, to names: [String],
    _ parsed: ParsedCommand
  ) throws(ControlError) -> FleetCourse? {
    guard let fleet else { return nil }
    RelayClient.announce(
      action, reason: parsed.text("reason"), to: names, store: store.path,
      atMost: console.relayPatience / 4)
    return try FleetCourse(fleet, to: names, atMost: parsed.duration("wait"), self)
  }
}

extension FleetStanding? {
  /// The scope of a command that was given with `--fleet`, or without it.
  var scope: CommandScope { self == nil ? .host : .fleet }
}

extension OptionSpec {
  static let reason = OptionSpec(
    name: "reason", kind: .remark, summary: "why, as the history will show it")
  /// The end of a change; a time of day is the next one of the local clock.
  static func until(_ summary: String) -> OptionSpec {
    OptionSpec(name: "until", kind: .time, summary: summary)
  }

  static let fleet = OptionSpec(
    name: "fleet", summary: "do the same on every host of the fleet, through cbrelay")
  static let wait = OptionSpec(
    name: "wait", kind: .duration,
    summary: "with --fleet: wait up to D until every host has confirmed it")
}
