import SharedBreaker

extension CommandSpec {
  static let doctor = CommandSpec(
    name: "doctor",
    summary: "find out what is wrong with the store, and mend it",
    options: [OptionSpec(name: "repair", summary: "mend what can be mended, then look again")],
    details: [
      "Prints one line for each check: ok, note (harmless as it is), warn or BAD; what was found, "
        + "what it means, and what --repair would do or has done. Without --repair nothing is "
        + "changed. The code is 0 only if nothing is warned of and nothing is bad.",
      "--repair deletes no file. A damaged store is set aside with all that lies beside it, as "
        + "NAME.corrupt-TIME; a new one begins with the same mode and group, and takes over the "
        + "policies, modes, totals and open times that can still be read. Programs that run "
        + "change over within a second.",
    ],
    examples: [
      Example("cbctl doctor", "what is wrong, if anything"),
      Example("cbctl doctor --repair", "mend it"),
    ],
    exitCodes: [.done, .failed, .usage, .storeUnavailable]
  ) { context, parsed throws(ControlError) in
    let findings = try context.findings(isRepair: parsed.has("repair"))
    let isWell = findings.allSatisfy(\.isWell)
    if context.global.isJSON {
      context.print(findings.document(of: context.store.path))
    } else if !context.global.isQuiet {
      context.print(findings.map { $0.line(context.painter) + "\n" }.joined())
    }
    return isWell ? .done : .exit(.failed)
  }
}

extension CommandContext {
  fileprivate func findings(isRepair: Bool) throws(ControlError) -> [StoreFinding] {
    do throws(StoreError) {
      return isRepair ? try store.repair(isAlone: true) : try store.examine(isAlone: true)
    } catch {
      throw error.kind == .missing ? noStoreYet() : ControlError(error)
    }
  }
}
