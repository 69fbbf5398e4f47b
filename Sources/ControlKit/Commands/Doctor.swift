import SharedBreaker

extension CommandSpec {
  static let doctor = CommandSpec(
    name: "doctor",
    summary: "check the store, and repair it",
    options: [OptionSpec(name: "repair", summary: "repair what can be repaired, then check again")],
    details: [
      "Prints each check with its result: ok, note (harmless as it is), warn or BAD. After that it "
        + "says what was found, what that means, and what --repair would do or has done. Without "
        + "--repair, nothing is changed. The exit code is 0 only if no check ends in warn or BAD.",
      "--repair deletes no file. It sets a damaged store aside as NAME.corrupt-TIME, with "
        + "everything beside it, and creates a new one with the same mode and group. The new store "
        + "takes over the policies, modes, totals and open times that can still be read. Running "
        + "programs switch to it within a second.",
    ],
    examples: [
      Example("cbctl doctor", "find out what is wrong"),
      Example("cbctl doctor --repair", "repair it"),
    ],
    exitCodes: [.done, .failed, .usage, .storeUnavailable]
  ) { context, parsed throws(ControlError) in
    let findings = try context.findings(isRepair: parsed.has("repair"))
    let isWell = findings.allSatisfy(\.isWell)
    if context.global.isJSON {
      context.print(findings.document(of: context.store.path))
    } else if !context.global.isQuiet {
      let width = context.console.width
      context.print(
        findings.map { $0.line(width: width, painter: context.painter) + "\n" }.joined())
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
