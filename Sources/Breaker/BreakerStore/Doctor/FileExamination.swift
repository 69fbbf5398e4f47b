internal import Glibc

/// Whether all users of the store can use it, and no other user can.
enum FileExamination {
  static func findings(_ place: StoreSite) -> [StoreFinding] {
    [directory(place), files(place)]
  }

  private static func directory(_ place: StoreSite) -> StoreFinding {
    let its = place.ofDirectory.rights
    let store = place.file.rights
    let found = "\(place.directory), mode \(its.octal)"
    if its.mode & 0o002 != 0, !store.isWritableForAll {
      let isSticky = its.mode & UInt32(S_ISVTX) != 0
      // In a directory that is not the store's own, others may have good reason to create files.
      if !isSticky, isStoresOwn(place) {
        var wanted = its
        wanted.mode &= ~0o002
        return StoreFinding(
          .directory, .bad, found + ": everybody may write to it",
          means: "everybody can replace the store", repair: "change it to \(wanted.octal)",
          [.adjust(suffix: nil, place.ofDirectory.identity, wanted)])
      }
      return StoreFinding(
        .directory, isSticky ? .warning : .bad, found + ": everybody may write to it",
        means: isSticky
          ? "others can put files in the place of the store's, which are then refused"
          : "everybody can replace the store",
        repair: "none, because others may use the directory: move the store, or run chmod o-w")
    }
    guard store.isGroupWritable, place.directory != "/" else {
      return StoreFinding(.directory, .ok, found)
    }
    var wanted = its
    wanted.mode |= 0o2070
    wanted.group = store.group
    if wanted == its { return way(place) ?? StoreFinding(.directory, .ok, found) }
    let isOwn = isStoresOwn(place)
    return StoreFinding(
      .directory, .warning, found + ", \(HostUsers.group(its.group))",
      means:
        "users of \(HostUsers.group(store.group)), who share the store, cannot create or share the files"
        + " beside it",
      repair: isOwn
        ? "give it to \(HostUsers.group(store.group)) with mode \(wanted.octal)"
        : "none, because others may use the directory: move the store to one of its own",
      isOwn ? [.adjust(suffix: nil, place.ofDirectory.identity, wanted)] : [])
  }

  /// Finds a directory on the way that keeps the group from a store that is for it; nil if none does.
  private static func way(_ place: StoreSite) -> StoreFinding? {
    let group = place.file.rights.group
    let barrier = place.way.first { _, rights in
      rights.mode & 0o001 == 0 && (rights.group != group || rights.mode & 0o010 == 0)
    }
    guard let (path, rights) = barrier else { return nil }
    return StoreFinding(
      .directory, .warning,
      "\(path), mode \(rights.octal), \(names(rights))",
      means:
        "users of \(HostUsers.group(group)), who share the store, cannot reach it, and go on alone",
      repair:
        "none, because others may use the directory: let them pass with chmod o+x, or move the"
        + " store")
  }

  /// Whether the directory contains only the store and the files that belong to it.
  private static func isStoresOwn(_ place: StoreSite) -> Bool {
    DirectoryListing.isOnly(of: StorePath.split(place.path).file, place.directory)
  }

  private static func files(_ place: StoreSite) -> StoreFinding {
    let store = place.file.rights
    let wanted = wanted(place)
    var report = Report()
    if let links = HardLinks(of: place.path) { report.add(links) }
    if let mount = LoneMount(of: place.path) { report.add(mount, of: place) }
    if wanted.user != store.user {
      let owner = HostUsers.name(of: wanted.user)
      report.add(
        "the store belongs to \(HostUsers.name(of: store.user)), mode \(store.octal), and its"
          + " directory to \(owner)",
        repair: "give it to \(owner)", .adjust(suffix: "", place.file.identity, wanted))
      report.means.append("programs of \(owner) cannot use the store, and go on alone")
    } else if wanted.group != store.group || wanted.mode != store.mode {
      report.add(
        "the store has mode \(store.octal), \(HostUsers.group(store.group))",
        repair: "change it to mode \(wanted.octal), \(HostUsers.group(wanted.group))",
        .adjust(suffix: "", place.file.identity, wanted))
      report.means.append(
        wanted.isGroupWritable && !store.isGroupWritable
          ? "its directory is for \(HostUsers.group(wanted.group)), whose users cannot use the store"
          : "a user who may read it can hold up all writers, so all its users must be able to write"
      )
    }
    for suffix in StoreSite.all {
      let path = place.beside(suffix)
      guard let status = FileStatus(of: path) else { continue }
      if let complaint = complaint(about: status, place) {
        report.isBad = true
        report.add(
          "\(suffix) \(complaint)", repair: "set \(suffix) aside",
          .setAside(suffix: suffix, status.identity))
        report.means.append("programs refuse it, and never follow it")
        continue
      }
      if PlantedFile.isStrange(status, beside: place.file) {
        report.isBad = true
        report.add(
          "\(suffix) belongs to \(HostUsers.user(status.rights.user)), mode"
            + " \(status.rights.octal), and the store to \(HostUsers.user(store.user))",
          repair: "none for \(suffix): only you know whether the store's programs created it: give"
            + " it to the store's owner, or move it away")
        report.means.append("programs refuse it, because its owner may have put it there")
        continue
      }
      guard differs(status.rights, from: wanted) else { continue }
      // If it got the rights of the store, it would have them under its other names too.
      if status.names > 1 {
        report.add(
          "\(suffix) has \(status.names) names, and other rights than the store",
          repair: "none for \(suffix): delete its other names")
        continue
      }
      // A difference that the store itself has too is not reported again.
      let found = "\(suffix) has mode \(status.rights.octal), \(names(status.rights))"
      report.add(
        differs(status.rights, from: store) ? found : nil,
        repair: "give \(suffix) the rights of the store",
        .adjust(suffix: suffix, status.identity, wanted))
    }
    return report.finding(
      about: "the store has mode \(store.octal), \(names(store))")
  }

  private static func names(_ rights: FileRights) -> String {
    "\(HostUsers.user(rights.user)), \(HostUsers.group(rights.group))"
  }

  /// The rights that the store must have.
  ///
  /// If a store is in a directory for a group but does not itself allow that group, it lost the
  /// group when it replaced an earlier store.
  private static func wanted(_ place: StoreSite) -> FileRights {
    var wanted = place.file.rights.ofUsers
    let its = place.ofDirectory.rights
    // Files that root creates there belong to that user, unless an earlier version has created
    // them.
    if wanted.user == 0, !wanted.isGroupWritable, !wanted.isWritableForAll,
      let owner = its.soleWriter
    {
      wanted.user = owner
      wanted.group = its.group
      return wanted
    }
    guard !wanted.isGroupWritable, !wanted.isWritableForAll, var ofGroup = ofGroup(place) else {
      return wanted
    }
    ofGroup.user = wanted.user
    return ofGroup
  }

  /// The rights of a group's store; nil if neither the directory nor the lock file implies them.
  ///
  /// The directory alone may imply them. Otherwise both the directory and the lock file, which is
  /// older than the store, must.
  private static func ofGroup(_ place: StoreSite) -> FileRights? {
    if let rights = FileRights(inDirectoryOf: place.path) { return rights }
    let its = place.ofDirectory.rights
    // A lock file of another user of the group does not count: it may have been created for this.
    guard its.mode & 0o072 == 0o070, let lock = FileStatus(of: place.beside(StoreLock.suffix)),
      lock.isRegular, lock.rights.isGroupWritable, lock.rights.group == its.group,
      [0, its.user, place.file.rights.user].contains(lock.rights.user)
    else { return nil }
    return lock.rights.ofUsers
  }

  /// Why a file cannot be repaired, or nil if it can.
  private static func complaint(about file: FileStatus, _ place: StoreSite) -> String? {
    if file.isLink { return "is a symbolic link" }
    if !file.isRegular { return "is not a regular file" }
    guard PlantedFile.isAnothers(file.rights.user, in: place.directory) else { return nil }
    return "belongs to \(HostUsers.user(file.rights.user)), who may have put it there"
  }

  /// The owner of a file does not matter if the group or all users may write to it.
  private static func differs(_ rights: FileRights, from store: FileRights) -> Bool {
    if rights.mode != store.mode { return true }
    if store.isWritableForAll { return false }
    return store.isGroupWritable ? rights.group != store.group : rights.user != store.user
  }
}

/// Collects what is found out about the files.
private struct Report {
  var isBad = false
  var means: [String] = []
  private var found: [String] = []
  private var notes: [String] = []
  private var repair: [String] = []
  private var remedies: [StoreRemedy] = []

  mutating func add(_ found: String?, repair: String, _ remedy: StoreRemedy? = nil) {
    if let found { self.found.append(found) }
    self.repair.append(repair)
    if let remedy { remedies.append(remedy) }
  }

  mutating func add(_ links: HardLinks) {
    guard !links.areShared else {
      notes.append("all of them have \(links.names) names")
      return
    }
    isBad = true
    add(
      "the store has \(links.names) names, and its log fewer",
      repair: "none for the names: delete the others, which 'find -samefile' lists")
    means.append(
      "every program refuses it, because it would get another log under another name, and two logs"
        + " damage it")
  }

  mutating func add(_ mount: LoneMount, of place: StoreSite) {
    isBad = true
    add(
      "\(mount.suffix.isEmpty ? "the store" : mount.suffix) is mounted without its directory",
      repair: "none for the mount: mount the directory instead")
    means.append(
      "every program refuses it, because it has another log on the other side of the mount, and two"
        + " logs damage it")
  }

  /// The finding, which describes the store if there is nothing else to report.
  func finding(about store: String) -> StoreFinding {
    if !found.isEmpty {
      let means = means.isEmpty ? ["\(store): some users may use only a part of it"] : means
      return StoreFinding(
        .files, isBad ? .bad : .warning, found.joined(separator: "; "),
        means: Set(means).count == 1 ? means[0] : means.joined(separator: "; "),
        repair: repair.joined(separator: "; "), remedies)
    }
    guard notes.isEmpty else {
      return StoreFinding(
        .files, .note,
        "\(store), and so have the files beside it; \(notes.joined(separator: "; "))",
        means: "hard links are no backup: they change with the store")
    }
    return StoreFinding(.files, .ok, "\(store), and so have the files beside it")
  }
}
