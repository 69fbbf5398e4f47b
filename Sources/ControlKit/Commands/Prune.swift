import SharedBreaker

extension CommandSpec {
  static let prune = CommandSpec(
    name: "prune",
    summary: "delete breakers that nobody has used for a while",
    options: [
      OptionSpec(name: "idle", kind: .duration, summary: "how long they must have been unused"),
      .dryRun,
    ],
    details: [
      "Deletes each breaker that is closed, has no probe under way, has no mode or policy value "
        + "set by an operator, and through which no call went for as long as --idle says. If it is "
        + "used again, it returns, as 'cbctl delete --help' explains.",
      "Successful calls leave a count but no time. If the count has grown since it was last "
        + "written, the breaker counts as used just now, and prune records that. So run prune "
        + "regularly; the first run may delete nothing. A process that holds a breaker without "
        + "making calls does not use it.",
    ],
    examples: [
      Example("cbctl prune --idle 30d --dry-run", "list what would be deleted"),
      Example("cbctl prune --idle 30d --quiet", "clean up every night, from cron"),
    ],
    exitCodes: [.done, .usage, .storeUnavailable],
    actsForUser: true
  ) { context, parsed throws(ControlError) in
    guard let idle = parsed.duration("idle") else {
      throw .usage("no --idle", "it says how long a breaker must be unused", help: "prune")
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
        removal.kept.append((snapshot.name, "calls have succeeded since the last look"))
        if removal.isDryRun { continue }
        _ = try context.ask { store throws(StoreError) in try store.noteUse(of: snapshot.name) }
      }
    }
    removal.report(as: "pruned", context)
    return .done
  }
}
