import BreakerDocuments
import ProgramKit
import SharedBreaker

extension CommandSpec {
  static let doctor = CommandSpec(
    name: "doctor",
    summary: "check the store, and repair it",
    options: [OptionSpec(name: "repair", summary: "repair what can be repaired, then check again")],
    details: [
      "Prints each check with its result, which is ok, note (harmless), warn or BAD, and says what "
        + "was found, what that means, and what --repair would do or has done. Without --repair, "
        + "nothing is changed. The exit code is 0 only if no check ends in warn or BAD.",
      "--repair deletes no file. It sets a damaged store aside as NAME.corrupt-TIME, with "
        + "everything beside it, and creates a new one with the same mode and group. The new store "
        + "takes over the policies, modes, totals and open times that can still be read. Running "
        + "programs switch to it within a second.",
    ],
    examples: [
      Example("cbctl doctor", "find out what is wrong"),
      Example("cbctl doctor --repair", "repair it"),
    ],
    exitCodes: [.done, .failed, .usage, .storeUnavailable],
    meanings: [.done: "no check ended in warn or BAD", .failed: "a check ended in warn or BAD"]
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
      let findings = isRepair ? try store.repair(isAlone: true) : try store.examine(isAlone: true)
      return findings.map { $0.check == "fleet" && $0.result == .ok ? withAnswer($0) : $0 }
    } catch {
      throw error.kind == .missing ? noStoreYet() : ControlError(error)
    }
  }

  /// Asks the relay of a fleet that seems well, because a relay that hangs still has its lock.
  ///
  /// Only an answer that is late is a warning: a relay other than `cbrelay` need not answer.
  private func withAnswer(_ finding: StoreFinding) -> StoreFinding {
    do throws(RelaySilence) {
      let client = RelayClient(store: store.path, patience: console.relayPatience)
      return finding.with(try client.status(.figures))
    } catch {
      guard error == .late else { return finding }
      return finding.warning(
        "the relay gives no answer", meaning: "this host may be cut off from the others",
        repair: "none: look at the log of cbrelay, and restart it if this lasts")
    }
  }
}

extension StoreFinding {
  /// The finding about a fleet, with what its relay knows.
  fileprivate func with(_ status: RelayStatus) -> StoreFinding {
    if let words = status.skew.flatMap({ ClockSkew.words($0) }) {
      return warning(
        "the clock of this host is \(words) the server's",
        meaning: "of two commands to the fleet, the one that was given earlier may win",
        repair: "none: set the clock of this host")
    }
    if status.unproven > 0 {
      let messages = CountedNoun.text(Int(clamping: status.unproven), "message")
      return warning(
        "\(messages) without a valid signature",
        meaning:
          "a host has another key or none, or may not command, or another client writes to the fleet's keys",
        repair:
          "none: see 'cbctl fleet status' and the log of cbrelay, and restart it to count again")
    }
    if status.acceptsUnsigned {
      return warning(
        "what is not signed counts too",
        meaning: "anyone who can write to the server can command this host",
        repair: "none: leave out --unsigned accept once every host has the key")
    }
    return self
  }

  /// This finding as a warning, because something else was found too.
  fileprivate func warning(_ found: String, meaning means: String, repair: String) -> StoreFinding {
    var finding = self
    finding.result = .warning
    finding.found += "; \(found)"
    finding.means = means
    finding.repair = repair
    return finding
  }

  /// The finding as one line, which is wrapped if a width is given.
  func line(width: Int?, painter: Painter) -> String {
    var text = found
    if let means { text += ": \(means)" }
    if let repair { text += "; repair: \(repair)" }
    let word = result.word.padded(to: 4)
    let line = VisibleText.bare(text)
    let beginning = "\(word)  \(check.padded(to: 10))  "
    let lines =
      width.map { TextWrap.hanging(line, after: beginning, width: $0) } ?? [beginning + line]
    return lines.joined(separator: "\n")
      .replacing(word, with: painter.paint(word, result.color), maxReplacements: 1)
  }

  fileprivate var json: JSONValue {
    .object([
      .init("check", .string(check)),
      .init("result", .string(result.rawValue)),
      .init("found", .string(found)),
      .init("means", JSONValue(means)),
      .init("repair", JSONValue(repair)),
    ])
  }
}

extension [StoreFinding] {
  /// The document of `doctor --json`.
  func document(of store: String) -> JSONValue {
    .object([
      .init("store", .string(store)),
      .init("well", .bool(allSatisfy(\.isWell))),
      .init("checks", .array(map(\.json))),
    ])
  }
}

extension StoreFinding.Result {
  fileprivate var word: String {
    switch self {
    case .ok: "ok"
    case .note: "note"
    case .bad: "BAD"
    default: "warn"
    }
  }

  fileprivate var color: Color? {
    switch self {
    case .ok: .green
    case .note: nil
    case .bad: .red
    default: .yellow
    }
  }
}

extension String {
  fileprivate func padded(to width: Int) -> String {
    self + String(repeating: " ", count: Swift.max(0, width - count))
  }
}
