import Glibc

/// A directory that was there before its store: whether those who share the store can use it.
struct StoreDirectory {
  private var path: String
  private var mode: Int64
  private var group: gid_t

  /// Looks at the directory of a file; nil if there is none.
  init?(of file: String) {
    let slash = file.lastIndex(of: "/")
    path = slash.map { String(file[...$0]) } ?? "."
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return nil }
    mode = Int64(status.st_mode & 0o7777)
    group = status.st_gid
  }

  /// What keeps users whom the mode of the files lets in from making files here.
  func complaint(mode files: Int64, group name: String?) -> String? {
    let wanted = name.flatMap { HostGroup.number(of: $0) } ?? group
    let hasGroup = files & 0o060 == 0 || (mode & 0o030 == 0o030 && group == wanted)
    let hasOthers = files & 0o006 == 0 || mode & 0o003 == 0o003
    if hasGroup, hasOthers { return nil }
    let who = hasGroup ? "others" : "the group"
    let right = hasOthers && files & 0o006 == 0 ? "2770" : "2777"
    let shown = VisibleText.bare(path)
    let chgrp = hasGroup ? "" : name.map { "chgrp \($0) \(shown) && " } ?? ""
    return "\(who) cannot write to \(shown), which was there already: "
      + "run '\(chgrp)chmod \(right) \(shown)'"
  }
}
