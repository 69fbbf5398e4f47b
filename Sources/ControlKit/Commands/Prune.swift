import SharedBreaker

extension CommandSpec {
  static let prune = CommandSpec(
    name: "prune",
    summary: "remove breakers that nobody has used for a time",
    options: [
      OptionSpec(name: "idle", kind: .duration, summary: "how long nobody must have used them"),
      .dryRun,
    ],
    details: [
      "A breaker goes if it is closed, has no probe under way and neither a mode nor a value of an "
        + "operator, and if no call went through it for as long as --idle says. It is back, as "
        + "'cbctl delete' has it, should it be used again.",
      "Calls that succeed leave no time behind, only a count. A breaker whose count has moved since "
        + "it was last written counts as used now, and that is noted: so run this regularly, and "
        + "the first run may remove nothing. A process that holds a breaker and calls nothing "
        + "does not use it.",
    ],
    examples: [
      Example("cbctl prune --idle 30d --dry-run", "what would go?"),
      Example("cbctl prune --idle 30d --quiet", "every night, from cron"),
    ],
    exitCodes: [.done, .usage, .storeUnavailable]
  ) { context, parsed throws(ControlError) in
    guard let idle = parsed.duration("idle") else {
      throw .usage("no --idle", "how long is not said", help: "prune")
    }
    let latest = context.now().earlier(by: idle)
    var removal = Removal(isDryRun: parsed.has("dry-run"))
    for snapshot in try context.snapshots(fitting: [], in: nil) {
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
        removal.kept.append((snapshot.name, "calls have succeeded since anybody looked"))
        if removal.isDryRun { continue }
        _ = try context.ask { store throws(StoreError) in try store.noteUse(of: snapshot.name) }
      }
    }
    removal.report(as: "pruned", context)
    return .done
  }
}
