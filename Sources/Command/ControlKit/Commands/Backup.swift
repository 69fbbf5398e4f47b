import BreakerDocuments
import ProgramKit
import SharedBreaker

extension CommandSpec {
  static let backup = CommandSpec(
    name: "backup",
    summary: "copy the whole store, while programs use it",
    arguments: [ArgumentSpec(label: "FILE", kind: .path, summary: "the path of the copy")],
    details: [
      "The copy has everything, the history too, as of one instant. It is itself a store, so "
        + "'cbctl --store FILE status' reads it. The latest successes are in FILE-counters.",
      "A copy that is there already is replaced once the new one is complete. Only the user who "
        + "makes it may read it.",
    ],
    examples: [
      Example("cbctl backup /var/backups/breakers.db", "make a backup, or replace the last one")
    ],
    exitCodes: [.done, .usage, .storeUnavailable]
  ) { context, parsed throws(ControlError) in
    let file = parsed.text("FILE") ?? ""
    try context.connectToExisting()
    try context.ask { store throws(StoreError) in try store.copy(to: file) }
    if context.global.isJSON {
      context.print(
        .object([.init("store", .string(context.store.path)), .init("backup", .string(file))]))
    } else if !context.global.isQuiet {
      context.print(
        "\(VisibleText.bare(file)): a copy of \(VisibleText.bare(context.store.path))\n")
    }
    return .done
  }

  static let restore = CommandSpec(
    name: "restore",
    summary: "put a backup into the place of the store",
    arguments: [
      ArgumentSpec(label: "FILE", kind: .path, summary: "the copy that 'cbctl backup' has made")
    ],
    details: [
      "Nothing need be stopped. Running programs notice within a second, and what they had begun "
        + "before counts no more. The store that was there is moved aside as NAME.replaced-TIME, "
        + "with everything beside it, and the new one has its group and mode, and its owner too if "
        + "root restores it.",
      "A file that is damaged, of a newer version, or no copy of a store changes nothing.",
      "Open breakers continue with what was left of their open times, and modes hold again.",
    ],
    examples: [
      Example("cbctl restore /var/backups/breakers.db", "return to a backup")
    ],
    exitCodes: [.done, .usage, .storeUnavailable],
    actsForUser: true
  ) { context, parsed throws(ControlError) in
    let file = parsed.text("FILE") ?? ""
    let earlier = try context.ask { store throws(StoreError) in try store.restore(from: file) }
    let path = context.store.path
    if context.global.isJSON {
      context.print(
        .object([
          .init("store", .string(path)), .init("backup", .string(file)),
          .init("earlier", earlier.map { .string($0) } ?? .null),
        ]))
    } else if !context.global.isQuiet {
      let words = earlier.map { "; the earlier one is now \(VisibleText.bare($0))" } ?? ""
      context.print("\(VisibleText.bare(path)): restored from \(VisibleText.bare(file))\(words)\n")
    }
    return .done
  }
}
