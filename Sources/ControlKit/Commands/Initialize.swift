import BreakerDocuments
import Glibc
import SharedBreaker

extension CommandSpec {
  static let initialize = CommandSpec(
    name: "init",
    summary: "create the store before its first use",
    options: [
      OptionSpec(
        name: "mode", kind: .fileMode, summary: "permissions of its files, such as 660 or 666"),
      OptionSpec(name: "group", kind: .group, summary: "group of its files, by name or number"),
    ],
    details: [
      "You need this only to share a store between users, because its first use creates a store "
        + "for one user. A store that already exists stays as it is.",
      "Every user of a store must be able to write to its file and to create files beside it. So "
        + "users who may read the store must also be able to write to it and to its directory. A "
        + "directory that this command creates has these rights.",
    ],
    examples: [
      Example("cbctl init --mode 660 --group workers", "create a store for all users of a group")
    ],
    exitCodes: [.done, .usage, .storeUnavailable]
  ) { context, parsed throws(ControlError) in
    context.changeStoreOptions { options in
      options.mode = parsed.number("mode").map { UInt32($0) } ?? options.mode
      options.group = parsed.text("group") ?? options.group
    }
    let path = context.store.path
    var status = stat()
    let wasFile = unsafe stat(path, &status) == 0
    let wasThere = wasFile && status.st_size > 0
    let directory = StoreDirectory(of: path)
    try context.ask { store throws(StoreError) in try store.connect() }
    if context.global.isJSON {
      context.print(.object([.init("store", .string(path)), .init("created", .bool(!wasThere))]))
    } else if !context.global.isQuiet {
      let words = wasThere ? "the store already exists" : "the store was created"
      context.print("\(VisibleText.bare(path)): \(words)\n")
    }
    if wasFile, parsed.has("mode") || parsed.has("group") {
      context.note(
        "--mode and --group were not applied: the file already exists: use chmod and chgrp")
    } else if let complaint = directory?.complaint(
      mode: parsed.number("mode") ?? 0o600, group: parsed.text("group"))
    {
      context.note(complaint)
    }
    return .done
  }
}
