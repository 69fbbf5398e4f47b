import BreakerDocuments
import SharedBreaker

extension CommandSpec {
  static let delete = CommandSpec(
    name: "delete",
    summary: "delete breakers that are no longer used",
    arguments: [.changed("the breakers, or patterns with * or ?", .any)],
    options: [
      OptionSpec(name: "all", summary: "delete every breaker that can be deleted without --force"),
      OptionSpec(name: "force", summary: "delete breakers whatever their state, mode or policy"),
      .dryRun, .yes,
    ],
    details: [
      "delete requires --force for a breaker that is not closed, is held, has a probe or a call under a limit "
        + "under way or waiting, has calls that count under a rate, or has a "
        + "mode or policy value set by an operator. If one of the breakers does not exist or "
        + "requires --force, none is deleted.",
      "--all keeps the breakers that require --force. It asks for confirmation, as a pattern does; in a "
        + "script, add --yes.",
      "A breaker that is still in use returns with its next call: closed, with its code's policy, "
        + "and without the operator's values, a hold, and the calls that count under a limit or a rate. The history is kept.",
    ],
    examples: [
      Example("cbctl delete old-payments", "delete the breaker of a resource that is gone"),
      Example("cbctl delete 'tenant-*' --dry-run", "list what would be deleted"),
    ],
    exitCodes: [.done, .failed, .usage, .noBreaker, .storeUnavailable],
    meanings: [.failed: "a breaker was not deleted, or you did not confirm it"],
    actsForUser: true
  ) { context, parsed throws(ControlError) in
    var removal = Removal(isDryRun: parsed.has("dry-run"))
    let breakers = try context.chosen(parsed)
    var chosen: [BreakerSnapshot] = []
    for name in breakers.names { chosen.append(try context.snapshot(of: name)) }
    for snapshot in chosen {
      if !parsed.has("force"), let reason = snapshot.reasonToStay {
        removal.kept.append((snapshot.name, reason))
      }
    }
    if !parsed.has("all"), let (name, reason) = removal.kept.first {
      throw ControlError(
        .failed, "\(VisibleText.name(name)): not deleted", reason, "use --force to delete it anyway"
      )
    }
    let kept = Set(removal.kept.map { Array($0.name.utf8) })
    chosen.removeAll { kept.contains(Array($0.name.utf8)) }
    if breakers.areMatches, !removal.isDryRun, !chosen.isEmpty {
      try context.confirm("delete \(CountedNoun.text(chosen.count, "breaker"))?", parsed)
    }
    for snapshot in chosen {
      if try removal.mayRemove(snapshot, despiteChanges: parsed.has("force"), context) {
        removal.removed.append(snapshot.name)
      } else {
        removal.kept.append((snapshot.name, "it was used meanwhile"))
      }
    }
    removal.report(as: "deleted", context)
    return parsed.has("all") || removal.kept.isEmpty ? .done : .exit(.failed)
  }
}

/// Breakers that a command removes, and those that it keeps.
private struct Removal {
  var isDryRun: Bool
  var removed: [String] = []
  var kept: [(name: String, reason: String)] = []

  /// Removes a breaker unless it has changed since its snapshot; a dry run removes nothing.
  ///
  /// - Returns: Whether it is gone, even if another process removed it.
  func mayRemove(
    _ snapshot: BreakerSnapshot, despiteChanges isForced: Bool, _ context: CommandContext
  ) throws(ControlError) -> Bool {
    if isDryRun { return true }
    return try context.ask { store throws(StoreError) in
      let isDeleted =
        isForced ? try store.delete(snapshot.name) : try store.delete(ifStillAs: snapshot)
      if isDeleted { return true }
      return try store.snapshot(of: snapshot.name) == nil
    }
  }

  /// Prints which breakers were removed and which were kept.
  func report(as verb: String, _ context: CommandContext) {
    if context.global.isJSON {
      context.print(
        .object([
          .init(verb, .array(removed.map { .string($0) })),
          .init(
            "kept",
            .array(
              kept.map {
                .object([.init("name", .string($0.name)), .init("reason", .string($0.reason))])
              })),
          .init("dry_run", .bool(isDryRun)),
        ]))
    } else if !context.global.isQuiet {
      let words = isDryRun ? "would be \(verb)" : verb
      context.print(removed.map { "\(VisibleText.name($0)): \(words)\n" }.joined())
      for (name, reason) in kept { context.note("\(VisibleText.name(name)): kept: \(reason)") }
    }
  }
}

extension BreakerSnapshot {
  /// Why the breaker should stay: what its next call would not restore; nil if there is no reason.
  fileprivate var reasonToStay: String? {
    if mode != .automatic {
      return "its mode is \(mode.wireName), set by \(VisibleText.bare(modeSetBy ?? "an operator"))"
    }
    if !operatorValues.isEmpty { return "an operator has set policy values" }
    if probesInFlight > 0 { return "a probe is under way" }
    if state != .closed { return "it is \(state.wireName)" }
    if let hold, hold.endsIn > .zero { return "it is held" }
    if let limit {
      if limit.calls.contains(where: { !$0.isOwnerGone }) { return "calls are under way" }
      if limit.waiting > 0 { return "callers wait for their turn" }
    }
    return rate.map { $0.begun > 0 } == true ? "calls have begun that count under its rate" : nil
  }
}

extension CommandContext {
  /// The breakers that the command line names, those that match its patterns, or all with `--all`.
  func chosen(_ parsed: ParsedCommand) throws(ControlError) -> ChosenBreakers {
    let patterns = parsed.patterns
    if parsed.has("all") != patterns.isEmpty {
      if patterns.isEmpty {
        throw .usage("missing NAME", "neither names nor --all were given", help: parsed.spec.name)
      }
      throw .usage("names and --all", "they contradict each other", help: parsed.spec.name)
    }
    guard parsed.has("all") else { return try chosen(patterns) }
    let all = try self.names()
    if all.isEmpty { note("no breakers: nothing to \(parsed.spec.name)") }
    return ChosenBreakers(names: all, areMatches: true)
  }
}

extension CommandSpec {
  static let prune = CommandSpec(
    name: "prune",
    summary: "delete breakers that have been unused for a while",
    options: [
      OptionSpec(
        name: "idle", kind: .duration, need: "it says how long a breaker must be unused",
        summary: "how long they must have been unused"),
      .dryRun,
    ],
    details: [
      "Deletes each breaker that 'cbctl delete' deletes without --force, and that has had no call for the time that "
        + "--idle says. A breaker that is used again returns, as 'cbctl delete --help' explains.",
      "Successful calls leave a count but no time. If the count has grown since it was last "
        + "written, prune records that the breaker has been used now. So run prune regularly; the "
        + "first run may delete nothing. A process that has a breaker but makes no calls does not "
        + "use it.",
    ],
    examples: [
      Example("cbctl prune --idle 30d --dry-run", "list what would be deleted"),
      Example("cbctl prune --idle 30d --quiet", "clean up every night, from cron"),
    ],
    exitCodes: [.done, .usage, .storeUnavailable],
    actsForUser: true
  ) { context, parsed throws(ControlError) in
    let latest = context.now().earlier(by: parsed.duration("idle") ?? .zero)
    var removal = Removal(isDryRun: parsed.has("dry-run"))
    for snapshot in try context.snapshots(fitting: []) {
      if let reason = snapshot.reasonToStay {
        removal.kept.append((snapshot.name, reason))
      } else if let used = snapshot.lastUsedAt {
        if used > latest {
          removal.kept.append((snapshot.name, "it was used at \(used)"))
        } else if try removal.mayRemove(snapshot, despiteChanges: false, context) {
          removal.removed.append(snapshot.name)
        } else {
          removal.kept.append((snapshot.name, "it was used meanwhile"))
        }
      } else {
        removal.kept.append((snapshot.name, "calls have succeeded since the last look"))
        if removal.isDryRun { continue }
        _ = try context.ask { store throws(StoreError) in try store.noteUse(of: snapshot.name) }
      }
    }
    removal.report(as: "pruned", context)
    return .done
  }
}

extension CommandContext {
  /// Asks for confirmation at a terminal; without a terminal, `--yes` is required.
  ///
  /// - Parameters:
  ///   - question: The question.
  ///   - parsed: The command line.
  ///   - subject: The subject of the confirmation; nil for the command with `--all` or a pattern.
  /// - Throws: If no user can be asked, or if the answer is no. Nothing has been done then.
  func confirm(
    _ question: String, _ parsed: ParsedCommand, for subject: String? = nil
  ) throws(ControlError) {
    if parsed.has("yes") { return }
    guard let ask = console.ask else {
      throw ControlError(
        .usage, subject ?? "\(parsed.spec.name) \(parsed.has("all") ? "--all" : "with a pattern")",
        "there is no terminal to confirm it at",
        "add --yes")
    }
    guard ask("\(question) [y/N] ") else {
      throw ControlError(.failed, "nothing was done", "you did not confirm it", "answer y to do it")
    }
  }
}

extension OptionSpec {
  static let yes = OptionSpec(name: "yes", letter: "y", summary: "do not ask for confirmation")
  static let dryRun = OptionSpec(
    name: "dry-run", summary: "print what would be done, and do nothing")
}
