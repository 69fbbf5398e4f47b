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
      "You need this only to share a store between users, because the store that its first use "
        + "creates is for one user. A store that already exists does not change.",
      "Every user of a store must be able to write to its file and to create files beside it. So "
        + "users who may read the store must also be able to write to it and to its directory. A "
        + "directory that this command creates has these rights.",
      "With --group and without --mode, the permissions are 660.",
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
      mode: parsed.number("mode") ?? (parsed.has("group") ? 0o660 : 0o600),
      group: parsed.text("group"))
    {
      context.note(complaint)
    }
    return .done
  }
}

/// A directory that existed before its store, and that users of the store must be able to use.
private struct StoreDirectory {
  private var path: String
  private var mode: Int64
  private var group: gid_t

  /// Examines the directory of a file; nil if it does not exist.
  init?(of file: String) {
    // By bytes, because the slash and a combining mark after it would be one character.
    let slash = file.utf8.lastIndex(of: UInt8(ascii: "/"))
    path = slash.map { String(file[..<file.utf8.index(after: $0)]) } ?? "."
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return nil }
    mode = Int64(status.st_mode & 0o7777)
    group = status.st_gid
  }

  /// Explains why users of the store cannot create files here; nil if they can.
  func complaint(mode files: Int64, group name: String?) -> String? {
    let wanted = name.flatMap { HostGroup.number(of: $0) } ?? group
    // Users outside the directory's group have the rights of others.
    let isOpen = mode & 0o003 == 0o003
    let hasGroup = files & 0o060 == 0 || (group == wanted ? mode & 0o030 == 0o030 : isOpen)
    let hasOthers = files & 0o006 == 0 || isOpen
    if hasGroup, hasOthers { return nil }
    let shell = ShellWords("")
    let folder = shell.escaped(path)
    let chgrp = hasGroup ? "" : name.map { "chgrp \(shell.escaped($0)) \(folder) && " } ?? ""
    let rights = (hasGroup ? [] : ["g+rwxs"]) + (hasOthers ? [] : ["o+rwx"])
    let chmod = "chmod \(rights.joined(separator: ",")) \(folder)"
    return "\(hasGroup ? "others" : "the group") cannot write to \(VisibleText.bare(path)), "
      + "which already existed: run \(chgrp)\(chmod)"
  }
}

/// The groups of this host.
enum HostGroup {
  /// The number of a group, by its name; nil if there is none.
  static func number(of name: String) -> gid_t? {
    guard let entry = unsafe getgrnam(name) else { return nil }
    return unsafe entry.pointee.gr_gid
  }

  /// The name of a group, by its name or its number; nil if there is none.
  static func name(of text: String) -> String? {
    // A name can consist of digits, so names come first.
    if number(of: text) != nil { return text }
    guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = gid_t(text),
      let entry = unsafe getgrgid(number), let name = unsafe entry.pointee.gr_name
    else { return nil }
    return unsafe String(cString: name)
  }
}
