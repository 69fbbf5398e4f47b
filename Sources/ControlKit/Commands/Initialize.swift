import BreakerDocuments
import Glibc
import SharedBreaker

extension CommandSpec {
  static let initialize = CommandSpec(
    name: "init",
    summary: "make the store ahead of its first use",
    options: [
      OptionSpec(name: "mode", kind: .fileMode, summary: "permissions of its files, as 660 or 666"),
      OptionSpec(name: "group", kind: .group, summary: "group of its files, by name or number"),
    ],
    details: [
      "Nobody has to: the first use makes the store, for one user. Make it here to share it "
        + "between users. A store that is there already is left as it is.",
      "Whoever uses a store has to write its file and make files beside it, so who may read it "
        + "must be able to write it, and its directory too. A directory that is made here is right.",
    ],
    examples: [
      Example("cbctl init --mode 660 --group workers", "a store for every user of a group")
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
      let words = wasThere ? "the store was there already" : "the store is made"
      context.print("\(VisibleText.bare(path)): \(words)\n")
    }
    if wasFile, parsed.has("mode") || parsed.has("group") {
      context.note(
        "--mode and --group were not applied: the file has its own: use chmod and chgrp")
    } else if let complaint = directory?.complaint(
      mode: parsed.number("mode") ?? 0o600, group: parsed.text("group"))
    {
      context.note(complaint)
    }
    return .done
  }
}
