import Glibc

/// A directory that existed before its store, and that users of the store must be able to use.
struct StoreDirectory {
  private var path: String
  private var mode: Int64
  private var group: gid_t

  /// Examines the directory of a file; nil if it does not exist.
  init?(of file: String) {
    // By bytes, because a combining mark after the slash would join it to one character.
    let slash = file.utf8.lastIndex(of: UInt8(ascii: "/"))
    path = slash.map { String(file[..<file.utf8.index(after: $0)]) } ?? "."
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return nil }
    mode = Int64(status.st_mode & 0o7777)
    group = status.st_gid
  }

  /// Why users who may use the files cannot create files here; nil if they can.
  func complaint(mode files: Int64, group name: String?) -> String? {
    let wanted = name.flatMap { HostGroup.number(of: $0) } ?? group
    // Users outside the directory's group have the rights of others there.
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
