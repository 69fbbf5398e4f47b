import Glibc

/// A directory that was there before its store: whether those who share the store can use it.
struct StoreDirectory {
  private var path: String
  private var mode: Int64
  private var group: gid_t

  /// Looks at the directory of a file; nil if there is none.
  init?(of file: String) {
    // By bytes: a mark beside the slash would make one character of both.
    let slash = file.utf8.lastIndex(of: UInt8(ascii: "/"))
    path = slash.map { String(file[..<file.utf8.index(after: $0)]) } ?? "."
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return nil }
    mode = Int64(status.st_mode & 0o7777)
    group = status.st_gid
  }

  /// What keeps users whom the mode of the files lets in from making files here.
  func complaint(mode files: Int64, group name: String?) -> String? {
    let wanted = name.flatMap { HostGroup.number(of: $0) } ?? group
    // Who is not of the directory's group has the rights of others there.
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
      + "which was there already: run \(chgrp)\(chmod)"
  }
}
